"""Dead letters over HTTP: whoever may use the console may decide about them, once."""

from datetime import UTC, datetime

from messages.dead_letters import DeadLetter
from messages.ids import DeliveryId, MessageId, SessionKey
from tests.actors.console.serving import serving
from tests.fakes.desk import FakeDesk


def letters(*numbers: int) -> FakeDesk:
    desk = FakeDesk()
    desk.letters = {
        number: DeadLetter(
            id=number,
            session_key=SessionKey("agent:main:web:main:dm:x"),
            seq=3,
            message_id=MessageId(f"m{number}"),
            origin=None,
            error="it crashed twice",
            at=datetime(2026, 3, 1, tzinfo=UTC),
        )
        for number in numbers
    }
    return desk


async def test_they_are_listed_shown_and_decided_about_once() -> None:
    async with serving(letters(4, 5)) as house:
        async with house.web.get("/api/dead-letters") as listed:
            assert [entry["id"] for entry in (await listed.json())["dead_letters"]] == [4, 5]
        async with house.web.get("/api/dead-letters/5") as shown:
            assert (await shown.json())["error"] == "it crashed twice"
        async with house.web.post("/api/dead-letters/4/retry") as retried:
            assert retried.status == 200
            content = await retried.json()
            assert (content["state"], content["retried_as"], content["closed_by"]) == (
                "retried",
                "m4~4",
                "the web",
            )
        async with house.control.post("/api/dead-letters/5/drop", json={}) as dropped:
            assert (await dropped.json())["closed_by"] == "the command line"
        for path in ("4/retry", "5/drop", "6/drop"):
            async with house.web.post(f"/api/dead-letters/{path}") as again:
                assert again.status == 409, path
                assert "no open dead letter" in (await again.json())["error"]["message"]


async def test_a_reply_is_told_from_a_message() -> None:
    desk = letters(4)
    about = {
        "kind": "reply",
        "message_id": None,
        "delivery_id": DeliveryId("d4"),
        "place": "slack:C1",
        "text": "hi",
    }
    desk.letters[5] = desk.letters[4].model_copy(update={"id": 5, **about})
    async with serving(desk) as house:
        async with house.web.get("/api/dead-letters") as listed:
            found = (await listed.json())["dead_letters"]
            assert [entry["kind"] for entry in found] == ["message", "reply"]
            assert (found[1]["place"], found[1]["text"], found[1]["parts"]) == ("slack:C1", "hi", 0)
        async with house.web.post("/api/dead-letters/5/retry") as retried:
            assert (await retried.json())["retried_as"] == "d4~5"


async def test_strangers_and_odd_numbers_get_nothing() -> None:
    async with serving(letters(4)) as house:
        async with house.stranger.post("/api/dead-letters/4/drop") as dropped:
            assert dropped.status == 401
        for path in ("9", "x", "-4", "4/burn"):
            async with house.web.get(f"/api/dead-letters/{path}") as shown:
                assert shown.status == 404, path
        assert house.desk.letters[4].state == "open"
