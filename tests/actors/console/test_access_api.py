"""Access over HTTP: one wish in, one answer out."""

import json

import pytest

from messages.access import AllowUser, ChooseForChat, MakeClaim, ShowAccess
from messages.gateway import Role
from tests.actors.console.serving import serving


async def test_a_wish_is_handed_on_with_who_wishes_it() -> None:
    async with serving() as house:
        wishes = [
            AllowUser(account="discord", user="7", role=Role.ADMIN),
            ChooseForChat(account="discord", place="900", value="free"),
            MakeClaim(),
        ]
        for wish in wishes:
            async with house.control.post("/api/access", data=wish.model_dump_json()) as answered:
                assert answered.status == 200
                assert (await answered.json())["text"] == "It is so."
        async with house.web.post("/api/access", json={"kind": "show_access"}) as answered:
            assert answered.status == 200
        assert [asked.wish for asked in house.desk.wishes] == [*wishes, ShowAccess()]
        assert [asked.by for asked in house.desk.wishes] == ["the command line"] * 3 + ["the web"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'{"kind": "dance"}',
        b'{"kind": "allow_user", "account": "discord"}',
        b'{"kind": "allow_user", "account": "discord", "user": 7}',
        b'{"kind": "allow_user", "account": "discord", "user": "7", "role": "king"}',
        b'{"kind": "show_access", "more": 1}',
        b"\xff",
        b"[" * 100_000,
    ],
)
async def test_what_is_no_wish_is_refused_with_the_reason(body: bytes) -> None:
    async with serving() as house:
        async with house.control.post("/api/access", data=body) as answered:
            assert answered.status == 422
            assert (await answered.json())["error"]["message"]
        assert house.desk.wishes == []


async def test_strangers_change_nothing() -> None:
    async with serving() as house:
        wish = json.loads(AllowUser(account="discord", user="7").model_dump_json())
        async with house.stranger.post("/api/access", json=wish) as answered:
            assert answered.status == 401
        assert house.desk.wishes == []
