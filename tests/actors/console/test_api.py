"""The JSON API, over real sockets."""

import asyncio
import io
from typing import Any
from urllib.parse import quote

import pytest

from actors.console.wire import BODY_LIMIT, HEARTBEAT_S
from messages.gateway import ChatType, Origin
from messages.ids import SessionKey
from tests.actors.console.serving import House, events_of, serving

pytestmark = pytest.mark.slow

KEY = "agent:main:web:main:dm:main"


async def post(house: House, path: str, content: Any, status: int) -> Any:
    async with house.web.post(path, json=content) as response:
        body = await response.json()
        assert response.status == status, body
        return body


async def get(house: House, path: str, status: int = 200) -> Any:
    async with house.web.get(path) as response:
        body = await response.json()
        assert response.status == status, body
        return body


async def say(house: House, text: str = "hello", status: int = 202, **more: Any) -> Any:
    return await post(house, "/api/messages", {"text": text, **more}, status)


async def test_a_message_is_taken_with_a_receipt() -> None:
    async with serving() as house:
        receipt = await say(house, message_id="m1", chat="a/b", user="u1", thread="t1", can_confirm=True)
        assert receipt["acceptance"] == "accepted"
        assert receipt["message_id"] == "m1"
        (heard,) = house.desk.spoken
        assert heard.origin == Origin(
            platform="web", chat_type=ChatType.DM, chat="a/b", thread="t1", user="u1"
        )
        assert heard.can_confirm
        assert heard.at == house.clock.now()


async def test_a_message_without_an_id_gets_its_own() -> None:
    async with serving() as house:
        assert (await say(house))["message_id"] != (await say(house))["message_id"]


async def test_a_message_that_was_heard_before_is_a_duplicate() -> None:
    async with serving() as house:
        await say(house, message_id="m1")
        assert (await say(house, message_id="m1", status=200))["acceptance"] == "duplicate"


async def test_a_refusal_says_why_and_when_to_try_again() -> None:
    async with serving() as house:
        house.desk.refuse("busy: try again in a moment")
        async with house.web.post("/api/messages", json={"text": "hello"}) as response:
            assert response.status == 429
            assert int(response.headers["retry-after"]) > 0
            body = await response.json()
        assert body["acceptance"] == "refused"
        assert body["why"] == body["error"]["message"] == "busy: try again in a moment"


async def test_nothing_is_taken_while_the_house_is_not_ready() -> None:
    async with serving() as house:
        house.desk.is_ready(False)
        await say(house, status=503)
        async with house.stranger.get("/readyz") as response:
            assert response.status == 503
        async with house.stranger.get("/healthz") as response:
            assert response.status == 200
        house.desk.is_ready(True)
        async with house.stranger.get("/readyz") as response:
            assert response.status == 200


async def test_why_it_is_not_ready_is_for_those_with_the_token() -> None:
    async with serving() as house:
        house.desk.trouble = "the disk of /srv/secret-place is full"
        wrong = {"Authorization": "Bearer guessed"}
        for client, headers, problem in (
            (house.stranger, {}, "store: trouble"),
            (house.stranger, wrong, "store: trouble"),
            (house.web, {}, house.desk.trouble),
            (house.control, {}, house.desk.trouble),
        ):
            async with client.get("/readyz", headers=headers) as response:
                assert response.status == 503
                assert (await response.json())["problem"] == problem


# ---------------------------------------------------------------------- sync


async def test_sync_waits_for_the_answer() -> None:
    async with serving() as house:
        house.desk.will_answer("Hello.")
        body = await post(house, "/api/messages?sync=true", {"text": "hi", "message_id": "m1"}, 200)
        assert (body["reply"], body["turn"], body["receipt"]["message_id"]) == ("Hello.", 1, "m1")


async def test_sync_of_a_message_that_was_answered_before_gives_that_answer() -> None:
    async with serving() as house:
        house.desk.will_answer("Hello.")
        await say(house, message_id="m1")
        await say(house, message_id="m2")
        body = await post(house, "/api/messages?sync=true", {"text": "hi", "message_id": "m1"}, 200)
        assert body["reply"] == "Hello."
        assert body["receipt"]["acceptance"] == "duplicate"


@pytest.mark.parametrize(("reason", "status"), [("failed", 502), ("rate_limited", 429), ("no_model", 503)])
async def test_sync_of_a_turn_that_fails_gives_the_reason(reason: str, status: int) -> None:
    async with serving() as house:
        house.desk.will_fail("The model's key is wrong.", reason)
        body = await post(house, "/api/messages?sync=true", {"text": "hi"}, status)
        assert body["error"]["message"] == "The model's key is wrong."
        assert body["error"]["code"] == reason


async def test_sync_of_a_command_whose_turn_fails_is_a_failure_too() -> None:
    async with serving() as house:
        house.desk.will_fail("Too many requests.", "rate_limited")
        body = await post(house, "/api/messages?sync=true", {"text": "/retry"}, 429)
        assert body["error"]["code"] == "rate_limited"


async def test_sync_of_a_command_gives_what_the_house_says() -> None:
    async with serving() as house:
        house.desk.streams("Once upon a time")
        await say(house, "tell me")
        house.desk.will_fail("All is well.", "")
        asking = asyncio.create_task(post(house, "/api/messages?sync=true", {"text": "/status"}, 200))
        await house.desk.heard(2)
        house.desk.finish()
        assert (await asking)["reply"] == "All is well."


async def test_sync_outlives_a_lost_watch() -> None:
    async with serving() as house:
        house.desk.streams("Hel")
        asking = asyncio.create_task(post(house, "/api/messages?sync=true", {"text": "hi"}, 200))
        await house.desk.heard(1)
        house.desk.lose_watches()
        house.desk.finish("Hello.")
        assert (await asking)["reply"] == "Hello."


async def test_sync_ends_when_the_client_goes_away_and_the_turn_goes_on() -> None:
    async with serving() as house:
        house.desk.streams("Hel")
        asking = asyncio.create_task(house.web.post("/api/messages?sync=true", json={"text": "hi"}))
        await house.desk.watched_by(1)
        await house.desk.heard(1)
        asking.cancel()
        await house.desk.watched_by(0)
        house.desk.finish("Hello.")
        entries = (await get(house, f"/api/sessions/{KEY}/messages"))["entries"]
        assert [entry["text"] for entry in entries] == ["hi", "Hello."]


async def test_C09_two_messages_on_one_session_both_get_exactly_one_answer() -> None:
    async with serving() as house:
        house.desk.streams("first")
        house.desk.will_answer("second answer")
        path = "/api/messages?sync=true"
        first = asyncio.create_task(post(house, path, {"text": "one", "message_id": "m1"}, 200))
        await house.desk.heard(1)
        second = asyncio.create_task(post(house, path, {"text": "two", "message_id": "m2"}, 200))
        await house.desk.heard(2)
        house.desk.finish("first answer")
        one, two = await first, await second
        assert (one["reply"], one["receipt"]["acceptance"]) == ("first answer", "accepted")
        assert (two["reply"], two["receipt"]["acceptance"]) == ("second answer", "queued")
        entries = (await get(house, f"/api/sessions/{KEY}/messages"))["entries"]
        settled = [ident for entry in entries for ident in entry["answers"]]
        assert sorted(settled) == ["m1", "m2"]
        assert (await get(house, "/api/sessions"))["sessions"][0]["state"] == "idle"


async def test_C09_a_turn_that_fails_does_not_hold_the_next_message_up() -> None:
    async with serving() as house:
        house.desk.streams("…")
        house.desk.will_answer("fine")
        first = asyncio.create_task(post(house, "/api/messages?sync=true", {"text": "one"}, 502))
        await house.desk.heard(1)
        second = asyncio.create_task(post(house, "/api/messages?sync=true", {"text": "two"}, 200))
        await house.desk.heard(2)
        house.desk.fails("it broke")
        assert (await first)["error"]["message"] == "it broke"
        assert (await second)["reply"] == "fine"


# -------------------------------------------------------------------- events


async def test_events_replay_what_was_missed_then_say_ready_then_go_on() -> None:
    async with serving() as house:
        house.desk.will_answer("one")
        await say(house, "first")
        async with house.web.get(f"/api/sessions/{KEY}/events") as response:
            events = events_of(response)
            ready = await events.until("ready")
            assert ready.data["state"] == "idle"
            assert [event.data["text"] for event in events.seen[:-1]] == ["first", "one"]
            last = events.seen[1].seq
            house.desk.will_answer("two", chunks=("t", "wo"))
            await say(house, "second")
            await events.until("live", "session_state_changed")
            assert [(await anext(events)).data["text"] for _ in range(3)] == ["t", "wo", "two"]
        async with house.web.get(
            f"/api/sessions/{KEY}/events", headers={"Last-Event-ID": str(last)}
        ) as response:
            events = events_of(response)
            await events.until("ready")
            assert [event.data["text"] for event in events.seen[:-1]] == ["second", "two"]
        async with house.web.get(f"/api/sessions/{KEY}/events?after={events.seen[1].seq}") as response:
            events = events_of(response)
            await events.until("ready")
            assert len(events.seen) == 1


async def test_events_tell_a_newcomer_the_whole_draft_and_what_waits_for_a_yes() -> None:
    async with serving() as house:
        house.desk.streams("Once", " upon")
        await say(house)
        async with house.web.get(f"/api/sessions/{KEY}/events") as response:
            events = events_of(response)
            assert (await events.until("ready")).data["state"] == "running"
            draft = (await anext(events)).data
            assert (draft["text"], draft["whole"]) == ("Once upon", True)
            house.desk.adds(" a time")
            assert (await anext(events)).data["text"] == " a time"
        house.desk.finish()
        house.desk.will_ask("c1", "terminal", '{"command": "ls"}')
        await say(house)
        async with house.web.get(f"/api/sessions/{KEY}/events") as response:
            question = await events_of(response).until("live", "confirmation_asked")
            assert question.data["call_id"] == "c1"


async def test_events_of_a_session_that_does_not_exist_yet_wait_for_it() -> None:
    async with serving() as house, house.web.get(f"/api/sessions/{KEY}/events") as response:
        events = events_of(response)
        assert (await events.until("ready")).data["state"] == "idle"
        await say(house, "first")
        assert (await events.until("entry")).data["text"] == "first"


async def test_events_that_were_lost_end_the_stream_and_the_next_one_goes_on() -> None:
    async with serving() as house:
        async with house.web.get(f"/api/sessions/{KEY}/events") as response:
            events = events_of(response)
            await events.until("ready")
            house.desk.lose_watches()
            await events.until("lost")
            assert [event async for event in events] == []
        assert house.desk.watchers() == 0


async def test_a_quiet_stream_has_a_heartbeat() -> None:
    async with serving() as house, house.web.get(f"/api/sessions/{KEY}/events") as response:
        events = events_of(response)
        await events.until("ready")
        for _ in range(3):
            await house.clock.advance(HEARTBEAT_S * 2)
            await events.comment()


async def test_a_client_that_goes_away_is_watched_for_no_longer() -> None:
    async with serving() as house:
        async with house.web.get(f"/api/sessions/{KEY}/events") as response:
            await events_of(response).until("ready")
            assert house.desk.watchers() == 1
        await house.desk.watched_by(0)


async def test_a_key_is_percent_encoded_once_as_a_whole() -> None:
    async with serving() as house:
        receipt = await say(house, chat="a/b:c%d ü?")
        key = receipt["session_key"]
        assert "%2F" in key
        asked = await get(house, f"/api/session-key?platform=web&chat={quote('a/b:c%d ü?', safe='')}")
        assert asked["session_key"] == key
        async with house.web.get(f"{house.url}/api/sessions/{quote(key, safe='')}/messages") as response:
            assert [entry["role"] for entry in (await response.json())["entries"]] == ["user", "assistant"]
        assert SessionKey(key) in house.desk.talks


async def test_stop_ends_the_running_turn() -> None:
    async with serving() as house:
        house.desk.streams("Once")
        await say(house)
        assert await post(house, f"/api/sessions/{KEY}/stop", {}, 200) == {"stopped": True}
        async with house.web.post(f"/api/sessions/{KEY}/stop") as response:
            assert await response.json() == {"stopped": False}


async def test_a_question_is_answered_once() -> None:
    async with serving() as house:
        house.desk.will_ask("c1", "terminal", "{}")
        await say(house)
        answer = {"call_id": "c1", "yes": True}
        assert await post(house, f"/api/sessions/{KEY}/confirm", answer, 200) == {"settled": True}
        await post(house, f"/api/sessions/{KEY}/confirm", answer, 409)
        assert house.desk.confirmed == [(SessionKey(KEY), "c1", True, "web")]


async def test_the_other_things_that_can_be_asked() -> None:
    async with serving() as house:
        assert (await get(house, "/api/status"))["version"] == "0.0.0"
        commands = (await get(house, "/api/commands"))["commands"]
        assert {command["name"] for command in commands} >= {"/new", "/stop", "/help"}
        assert await get(house, "/api/sessions") == {"sessions": []}
        assert await get(house, f"/api/sessions/{KEY}/messages?after=7") == {"entries": [], "last": 7}
        async with house.web.get("/metrics") as response:
            assert response.headers["content-type"].startswith("text/plain")
            assert "callboard_turns_total 1.0" in await response.text()


# ----------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"", 400, "empty"),
        (b"{", 400, "line 1, column 2"),
        (b'{\n  "text": "a",\n  oops\n}', 400, "line 3, column 3"),
        (b'{"text": "\xff"}', 400, "byte 10"),
        (b"[" * 100_000, 400, "nested too deeply"),
        (b'{"text": NaN}', 400, "NaN is not JSON"),
        (b'{"text": ' + b"9" * 5000 + b"}", 400, "not valid JSON"),
        (b'["text"]', 400, "must be a JSON object"),
        (b"null", 400, "must be a JSON object"),
        (b"{}", 422, "text: Field required"),
        (b'{"text": 1}', 422, "text: Input should be a valid string"),
        (b'{"text": " \\n"}', 422, "text: must not be blank"),
        (b'{"text": "a", "chta": "b"}', 422, "chta: Extra inputs are not permitted"),
        (b'{"text": "a", "chat": ""}', 422, "chat: must have 1 to 512 characters, not 0"),
        (
            b'{"text": "a", "chat": "' + b"x" * 513 + b'"}',
            422,
            "chat: must have 1 to 512 characters, not 513",
        ),
        (b'{"text": "a", "platform": "discord"}', 422, "platform: Input should be 'web' or 'terminal'"),
        (b'{"text": "a", "can_confirm": "yes"}', 422, "can_confirm: Input should be a valid boolean"),
    ],
)
async def test_a_wrong_body_is_refused_with_what_is_wrong_and_where(
    body: bytes, status: int, says: str
) -> None:
    async with serving() as house:
        headers = {"Content-Type": "application/json"}
        async with house.web.post("/api/messages", data=body, headers=headers) as response:
            answer = await response.json()
            assert response.status == status, answer
        assert says in answer["error"]["message"]
        assert house.desk.spoken == []


async def test_text_that_utf8_cannot_hold_is_taken_all_the_same() -> None:
    async with serving() as house:
        headers = {"Content-Type": "application/json; charset=utf-8"}
        for body in (b'\xef\xbb\xbf{"text": "a\\ud83d b\\u0000"}', b'{"text": "a\xed\xa0\xbd b\\u0000"}'):
            async with house.web.post("/api/messages", data=body, headers=headers) as response:
                assert response.status == 202
        assert {heard.text for heard in house.desk.spoken} == {"a\ufffd b\x00"}


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_too_large_is_refused(chunked: bool) -> None:
    async def pieces() -> Any:
        for _ in range(11):
            yield b" " * (BODY_LIMIT // 10)

    async with serving() as house:
        data = pieces() if chunked else io.BytesIO(b" " * (BODY_LIMIT + 1))
        headers = {"Content-Type": "application/json"}
        async with house.web.post("/api/messages", data=data, headers=headers) as response:
            assert response.status == 413
            assert "10 MB" in (await response.json())["error"]["message"]


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/api/nothing", 404, "not found"),
        ("/api/messages", 405, "method not allowed"),
        ("/api/sessions/x/messages?after=-1", 422, "after: must be a whole number"),
        ("/api/sessions/x/messages?after=x", 422, "after: must be a whole number"),
        ("/api/session-key?platform=web", 400, "names nobody"),
        ("/api/session-key?chat_type=x&chat=a", 422, "chat_type:"),
        ("/api/session-key?caht=a", 422, "caht: unknown"),
    ],
)
async def test_a_wrong_address_is_refused_with_what_is_wrong(path: str, status: int, says: str) -> None:
    async with serving() as house:
        assert says in (await get(house, path, status))["error"]["message"]
