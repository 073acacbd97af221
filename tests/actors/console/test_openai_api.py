"""/v1 with the real openai SDK, and what the SDK does not show with plain HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from messages.gateway import Said
from tests.actors.console.serving import TOKEN, House, events_of, serving

pytestmark = pytest.mark.slow

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]


@asynccontextmanager
async def client_of(house: House, token: str = TOKEN) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{house.url}/v1", api_key=token, max_retries=0) as client:
        yield client


async def post(house: House, content: dict[str, Any], status: int, **headers: str) -> Any:
    content = {"model": "callboard", **content}
    async with house.web.post("/v1/chat/completions", json=content, headers=headers) as response:
        body = await response.json()
        assert response.status == status, body
        return body


async def test_a_completion_through_the_sdk() -> None:
    async with serving() as house, client_of(house) as client:
        house.desk.will_answer("Hello.", chunks=("Hel", "lo."))
        answer = await client.chat.completions.create(model="callboard", messages=HELLO)
        assert answer.choices[0].message.content == "Hello."
        assert answer.choices[0].finish_reason == "stop"
        assert answer.model == "fake/parrot-1"
        assert answer.usage is None


async def test_a_stream_through_the_sdk() -> None:
    async with serving() as house, client_of(house) as client:
        house.desk.streams("Hel")
        stream = await client.chat.completions.create(
            model="callboard", messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
        role = await anext(stream)
        assert role.choices[0].delta.role == "assistant"
        assert (await anext(stream)).choices[0].delta.content == "Hel"
        house.desk.adds("lo.")
        assert (await anext(stream)).choices[0].delta.content == "lo."
        house.desk.finish()
        end, usage = [chunk async for chunk in stream]
        assert end.choices[0].finish_reason == "stop"
        assert end.model == "fake/parrot-1"
        assert usage.choices == []


async def test_a_stream_whose_drafts_were_lost_has_the_whole_answer() -> None:
    async with serving() as house, client_of(house) as client:
        house.desk.will_answer_unseen("Hello.")
        house.desk.streams("Hel")
        for _ in range(2):
            stream = await client.chat.completions.create(
                model="callboard", messages=HELLO, stream=True, user="u"
            )
            if house.desk.talks and next(iter(house.desk.talks.values())).running:
                house.desk.lose_watches()
                house.desk.finish("Hello.")
            pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
            assert "".join(pieces) == "Hello."


async def test_drafts_of_another_turn_of_the_session_are_not_ours() -> None:
    async with serving() as house, client_of(house) as client:
        house.desk.streams("not yours")
        first = await client.chat.completions.create(model="x", messages=HELLO, stream=True, user="u")
        house.desk.will_answer("Yours.")
        second = await client.chat.completions.create(model="x", messages=HELLO, stream=True, user="u")
        house.desk.adds(" either")
        house.desk.finish()
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in second]) == "Yours."
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in first]) == "not yours either"


async def test_text_before_a_tool_and_after_it_are_apart() -> None:
    async with serving() as house, client_of(house) as client:
        house.desk.streams("Let me look.")
        stream = await client.chat.completions.create(model="x", messages=HELLO, stream=True)
        house.desk.uses("read_file", "four")
        house.desk.starts_over()
        house.desk.adds("It says four.")
        house.desk.finish()
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
        assert "".join(pieces) == "Let me look.\n\nIt says four."


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_away_does_not_stop_the_turn(stream: bool) -> None:
    async with serving() as house:
        house.desk.streams("Hel")
        content = {"model": "x", "messages": HELLO, "stream": stream, "user": "u"}
        asking = asyncio.create_task(house.web.post("/v1/chat/completions", json=content))
        await house.desk.heard(1)
        if stream:
            (await asking).close()
        asking.cancel()
        await house.desk.watched_by(0)
        house.desk.finish("Hello.")
        (talk,) = house.desk.talks.values()
        assert talk.entries[-1].text == "Hello."


async def test_a_server_that_stops_is_an_error_and_no_short_answer() -> None:
    async with serving() as house, client_of(house) as client:
        house.desk.streams("Hel")
        stream = await client.chat.completions.create(model="callboard", messages=HELLO, stream=True)
        assert [(await anext(stream)).choices[0].delta.content for _ in range(2)] == ["", "Hel"]
        await house.server.stop()
        with pytest.raises(openai.APIError, match="stopping"):
            [chunk async for chunk in stream]


# ------------------------------------------------------------------ failures


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("failed", openai.InternalServerError),
        ("no_model", openai.InternalServerError),
        ("rate_limited", openai.RateLimitError),
    ],
)
async def test_a_turn_that_fails_is_an_error_of_the_sdk(
    reason: str, error: type[openai.APIStatusError]
) -> None:
    async with serving() as house, client_of(house) as client:
        house.desk.will_fail("The key of the model is wrong: set it.", reason)
        with pytest.raises(error, match="The key of the model is wrong"):
            await client.with_options(max_retries=2).chat.completions.create(
                model="callboard", messages=HELLO
            )
        assert len(house.desk.spoken) == 1


async def test_a_turn_that_fails_in_a_stream_is_an_error_of_the_sdk() -> None:
    async with serving() as house, client_of(house) as client:
        house.desk.will_fail("The key of the model is wrong: set it.")
        stream = await client.chat.completions.create(model="callboard", messages=HELLO, stream=True)
        with pytest.raises(openai.APIError, match="The key of the model is wrong"):
            [chunk async for chunk in stream]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_is_a_rate_limit(stream: bool) -> None:
    async with serving() as house, client_of(house) as client:
        house.desk.refuse("busy, try again")
        with pytest.raises(openai.RateLimitError, match="busy, try again") as refusal:
            await client.chat.completions.create(model="callboard", messages=HELLO, stream=stream)
        assert int(refusal.value.response.headers["retry-after"]) > 0
        assert house.desk.watchers() == 0


async def test_a_wrong_token_is_an_authentication_error() -> None:
    async with serving() as house, client_of(house, "wrong") as client:
        with pytest.raises(openai.AuthenticationError):
            await client.models.list()


async def test_a_command_is_answered() -> None:
    async with serving() as house, client_of(house) as client:
        house.desk.will_answer("All is well.")
        messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "/status"}]
        answer = await client.chat.completions.create(model="callboard", messages=messages)
        assert answer.choices[0].message.content == "All is well."


# ------------------------------------------------------------------ sessions


async def test_the_header_names_the_session_else_the_user_does() -> None:
    async with serving() as house:
        await post(house, {"messages": HELLO, "user": "ann"}, 200, **{"X-Session-Key": "my chat: ä/1"})
        await post(house, {"messages": HELLO, "user": "ann"}, 200)
        await post(house, {"messages": HELLO}, 200)
        await post(house, {"messages": HELLO}, 200)
        chats = [heard.origin.chat for heard in house.desk.spoken]
        assert chats[:2] == ["my chat: ä/1", "ann"]
        assert len(set(chats)) == 4
        assert {heard.origin.platform for heard in house.desk.spoken} == {"api"}


async def test_earlier_messages_become_context_and_the_last_is_spoken() -> None:
    async with serving() as house:
        messages = [
            {"role": "system", "content": "Be brief."},
            {
                "role": "developer",
                "content": [{"type": "text", "text": "Be"}, {"type": "text", "text": "kind."}],
            },
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "1"},
            {"role": "user", "content": [{"type": "text", "text": "two"}]},
        ]
        await post(house, {"messages": messages, "temperature": 1, "anything": {"else": []}}, 200)
        (heard,) = house.desk.spoken
        assert heard.text == "two"
        assert heard.context == (
            Said(role="system", text="Be brief."),
            Said(role="system", text="Be\nkind."),
            Said(role="user", text="one"),
            Said(role="assistant", text="1"),
        )


@pytest.mark.parametrize("named", [{}, {"X-Session-Key": "s"}])
async def test_the_same_idempotency_key_gets_the_same_answer_once(named: dict[str, str]) -> None:
    async with serving() as house:
        house.desk.will_answer("Hello.")
        for _ in range(2):
            body = await post(house, {"messages": HELLO}, 200, **{"Idempotency-Key": "k1"}, **named)
            assert body["choices"][0]["message"]["content"] == "Hello."
        assert sum(talk.turns for talk in house.desk.talks.values()) == 1


async def test_the_models_are_listed() -> None:
    async with serving() as house, client_of(house) as client:
        assert [model.id async for model in client.models.list()] == ["callboard", "fake/parrot-1"]
        assert (await client.models.retrieve("fake/parrot-1")).owned_by == "callboard"
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("gpt-0")


@pytest.mark.parametrize(
    ("content", "status", "says"),
    [
        ({}, 422, "messages: Field required"),
        ({"messages": []}, 422, "messages: "),
        ({"messages": HELLO, "model": 3}, 422, "model: Input should be a valid string"),
        ({"messages": HELLO, "stream": "yes"}, 422, "stream: "),
        ({"messages": ["hello"]}, 422, "messages.0: "),
        ({"messages": [{"role": "user", "content": 5}]}, 422, "messages.0.content"),
        ({"messages": [{"role": "user", "content": " "}]}, 400, "empty"),
        ({"messages": [{"role": "user"}]}, 400, "empty"),
        ({"messages": [{"role": "system", "content": "x"}]}, 400, "last message must be the user's"),
        ({"messages": [{"role": "tool", "content": "x"}, *HELLO]}, 400, "Callboard runs its own tools"),
        ({"messages": [{"role": "king", "content": "x"}, *HELLO]}, 400, "'king' is not supported"),
        ({"messages": HELLO, "n": 2}, 400, "n = 1"),
        ({"messages": HELLO, "tools": [{"type": "function"}]}, 400, "runs its own tools itself"),
        ({"messages": HELLO, "functions": [{"name": "x"}]}, 400, "runs its own tools itself"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            400,
            "'image_url' is not supported yet",
        ),
    ],
)
async def test_what_is_not_offered_is_refused_in_plain_words(
    content: dict[str, Any], status: int, says: str
) -> None:
    async with serving() as house:
        body = await post(house, content, status)
        assert says in body["error"]["message"]
        assert body["error"]["type"] == "invalid_request_error"
        assert house.desk.spoken == []


async def test_a_stream_is_server_sent_events_to_the_letter() -> None:
    async with serving() as house:
        house.desk.will_answer("Hi\n€")
        content = {"model": "x", "messages": HELLO, "stream": True}
        async with house.web.post("/v1/chat/completions", json=content) as response:
            events = events_of(response)
            role, text, end, done = [event.data async for event in events]
        assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert text["choices"][0]["delta"] == {"content": "Hi\n€"}
        assert end["choices"][0]["finish_reason"] == "stop"
        assert done == "[DONE]"
        assert len({chunk["id"] for chunk in (role, text, end)}) == 1
