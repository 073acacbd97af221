"""GET /api/search, over real sockets."""

from typing import Any

import pytest

from messages.ids import SessionKey
from messages.search import SearchAsked, SearchFound, SearchHit
from tests.actors.console.serving import House, serving
from tests.fakes.desk import START

pytestmark = pytest.mark.slow

HIT = SearchHit(
    id=7, session_key=SessionKey("k"), role="assistant", said_at=START, score=2.0, snippet="部署失败"
)


async def get(house: House, status: int = 200, **params: Any) -> Any:
    async with house.web.get("/api/search", params=params) as response:
        body = await response.json()
        assert response.status == status, body
        return body


async def test_words_and_filters_go_in_and_hits_come_out() -> None:
    async with serving() as house:
        house.desk.finds = SearchFound(hits=(HIT,), total=1)
        body = await get(
            house, words="部署", platform="web", limit="3", newest_first="true", since=START.isoformat()
        )
        assert body["hits"][0]["snippet"] == "部署失败"
        assert body["total"] == 1
        assert house.desk.searches == [
            SearchAsked(words="部署", platform="web", limit=3, newest_first=True, since=START)
        ]


async def test_a_role_may_be_named_more_than_once() -> None:
    async with serving() as house:
        async with house.web.get("/api/search?words=x&role=user&role=command") as response:
            assert response.status == 200
        assert house.desk.searches[0].roles == ("user", "command")


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"words": ""}, "words"),
        ({}, "words"),
        ({"words": "-x"}, "words"),
        ({"words": "x", "limit": "0"}, "limit"),
        ({"words": "x", "limit": "many"}, "limit"),
        ({"words": "x", "role": "robot"}, "roles"),
        ({"words": "x", "since": "2026-01-01T00:00:00"}, "since"),
        ({"words": "x", "until": "soon"}, "until"),
        ({"words": "x", "colour": "red"}, "colour"),
    ],
)
async def test_what_is_wrong_is_named(params: dict[str, str], param: str) -> None:
    async with serving() as house:
        body = await get(house, 422, **params)
        assert body["error"]["param"] == param


async def test_a_stranger_searches_nothing() -> None:
    async with serving() as house, house.stranger.get("/api/search?words=x") as response:
        assert response.status == 401
        assert house.desk.searches == []
