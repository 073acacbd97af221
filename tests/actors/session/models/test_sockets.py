"""The real SDKs against the scripted server, over real sockets on loopback."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actors.session.models.directory import ModelDirectory
from actors.session.models.port import ModelCallError
from messages.model import Failure, FailureKind, ModelRef, ModelReply
from messages.settings import ProviderSettings, Settings
from tests.actors.session.models.test_contract import LIMIT_S, Heard
from tests.actors.session.models.wires import KEY, request, text_of, user
from tests.counterparts.model_server import (
    Fail,
    Hang,
    ModelServer,
    Raw,
    Reply,
    Say,
    anthropic_frames,
    chunk,
    data,
    openai_frames,
)
from tests.fakes.clock import ManualClock

K = FailureKind


class Setting:
    """A server, and the models that are connected to it."""

    def __init__(
        self, server: ModelServer, clock: ManualClock, home: Path, provider: str, **limits: Any
    ) -> None:
        self.server = server
        self.clock = clock
        self.model = ModelRef(provider=provider, name="scripted-1")
        settings = Settings(
            providers={
                "openai": ProviderSettings.model_validate(
                    {"base_url": server.base_url, "api_key": KEY, **limits}
                ),
                "anthropic": ProviderSettings.model_validate(
                    {"base_url": server.base_url, "api_key": KEY, "protocol": "anthropic-messages", **limits}
                ),
            }
        )
        self.models = ModelDirectory(settings, {}, clock, home, print)

    async def ask(self, text: str = "hi", heard: Heard | None = None) -> ModelReply:
        return await self.models.ask(request(user(text), model=self.model), heard or Heard())

    async def fails(self, *replies: Reply) -> Failure:
        self.server.will(*replies)
        with pytest.raises(ModelCallError) as caught:
            await self.ask()
        return caught.value.failure


@contextlib.asynccontextmanager
async def setting(clock: ManualClock, home: Path, provider: str, **limits: Any) -> AsyncIterator[Setting]:
    async with ModelServer() as server:
        made = Setting(server, clock, home, provider, **limits)
        try:
            yield made
        finally:
            await made.models.close()


@pytest.fixture(params=["openai", "anthropic"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def here(provider: str, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Setting]:
    async with setting(clock, tmp_path, provider) as made:
        yield made


def frames(provider: str, text: str) -> list[str]:
    return openai_frames(Say(text)) if provider == "openai" else anthropic_frames(Say(text))


async def test_the_request_is_signed_and_whole(here: Setting) -> None:
    await here.ask("what is it?")
    sent = here.server.requests[0]
    headers = {name.lower(): value for name, value in sent.headers.items()}
    assert KEY in (headers.get("x-api-key") or headers["authorization"])
    assert (sent.body["model"], sent.body["stream"], sent.last_user_text) == (
        "scripted-1",
        True,
        "what is it?",
    )


async def test_a_server_on_this_machine_gets_a_connection_for_each_call(here: Setting) -> None:
    await here.ask()
    headers = {name.lower(): value for name, value in here.server.requests[0].headers.items()}
    assert headers["connection"] == "close"


async def test_one_request_and_no_retry_of_the_sdk(here: Setting) -> None:
    await here.fails(Fail(500, "boom"))
    await here.fails(Fail(429, "", {"retry-after": "7"}))
    assert len(here.server.requests) == 2


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Fail(401, {"error": {"message": f"bad key {KEY}", "type": "authentication_error"}}), K.AUTH),
        (Fail(404, {"error": {"message": "no such model", "type": "not_found_error"}}), K.NOT_FOUND),
        (
            Fail(429, {"error": {"message": "slow", "type": "rate_limit_error"}}, {"retry-after": "7"}),
            K.RATE_LIMITED,
        ),
        (Fail(500, "<html><title>oops</title></html>"), K.OVERLOADED),
        (Fail(529, {"error": {"message": "full", "type": "overloaded_error"}}), K.OVERLOADED),
        (
            Fail(400, {"error": {"message": "prompt is too long", "type": "invalid_request_error"}}),
            K.CONTEXT_OVERFLOW,
        ),
        (Raw(("<html><title>A login page</title></html>",), content_type="text/html"), K.NOT_FOUND),
        (
            Raw(('{"error": {"message": "upstream is overloaded"}}',), content_type="application/json"),
            K.OVERLOADED,
        ),
    ],
)
async def test_answers_of_failure(here: Setting, reply: Reply, kind: FailureKind) -> None:
    failure = await here.fails(reply)
    assert failure.kind is kind
    assert KEY not in failure.model_dump_json()
    assert failure.retry_after_s == (7.0 if kind is K.RATE_LIMITED else None)


async def test_L18_a_stream_that_ends_cleanly_in_the_middle_is_cut(here: Setting, provider: str) -> None:
    assert (await here.fails(Raw(tuple(frames(provider, "half an answer")[:4])))).kind is K.CUT


async def test_L18_a_connection_torn_in_the_middle_is_cut_and_what_came_is_kept(
    here: Setting, provider: str
) -> None:
    here.server.will(Raw(tuple(frames(provider, "half an answer")[:4]), end="abort"))
    heard = Heard()
    with pytest.raises(ModelCallError) as caught:
        await here.ask(heard=heard)
    assert caught.value.failure.kind in (K.CUT, K.NETWORK)
    assert caught.value.partial == heard.text


async def test_L18_a_connection_that_stays_open_after_the_end_holds_nobody(
    here: Setting, provider: str
) -> None:
    here.server.will(Raw(tuple(frames(provider, "all of it")), end="hang"))
    heard = Heard()
    task = asyncio.create_task(here.ask(heard=heard))
    await heard.until(lambda: heard.text == "all of it")
    await turning(here.clock, task, 0.2)
    assert text_of(await task) == "all of it"


async def test_L10_an_error_in_the_stream_is_a_failure(here: Setting, provider: str) -> None:
    wrong = data({"error": {"message": "upstream overloaded", "code": 502}})
    assert (
        await here.fails(Raw((*frames(provider, "half an answer")[:4], wrong, data("[DONE]"))))
    ).kind is K.OVERLOADED


async def test_pieces_cut_anywhere_make_the_same_answer(here: Setting, provider: str) -> None:
    whole = "".join(frames(provider, "grüße 🙂 all")).encode()
    here.server.will(Raw(tuple(whole[at : at + 7] for at in range(0, len(whole), 7))))
    assert text_of(await here.ask()) == "grüße 🙂 all"


async def test_an_answer_that_is_not_streamed_is_an_answer(clock: ManualClock, tmp_path: Path) -> None:
    whole = '{"choices":[{"index":0,"message":{"content":"at once"},"finish_reason":"stop"}]}'
    async with setting(clock, tmp_path, "openai") as here:
        here.server.will(Raw((whole,), content_type="application/json"))
        assert text_of(await here.ask()) == "at once"


async def test_a_stream_under_a_wrong_name_is_a_stream(here: Setting, provider: str) -> None:
    here.server.will(Raw(tuple(frames(provider, "all of it")), content_type="application/json"))
    assert text_of(await here.ask()) == "all of it"


async def test_a_listeners_fault_is_no_failure_of_the_provider(here: Setting) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError

    for _ in range(4):
        with pytest.raises(ZeroDivisionError):
            await here.models.ask(request(user("hi"), model=here.model), broken)
    assert text_of(await here.ask()) == "echo: hi"


async def test_cancelling_before_any_answer_closes_the_connection(here: Setting) -> None:
    here.server.will(Hang(headers=False))
    task = asyncio.create_task(here.ask())
    async with asyncio.timeout(LIMIT_S):
        sent = await here.server.asked(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await sent.closed()


# ------------------------------------------------------------------- silence


async def turning(clock: ManualClock, task: "asyncio.Task[ModelReply]", seconds: float) -> None:
    """Turn the clock until the task is done (sockets take real time, the limits do not)."""
    async with asyncio.timeout(LIMIT_S):
        while not task.done():
            await clock.advance(seconds)
            await asyncio.wait([task], timeout=0.01)


async def test_nothing_at_all_is_stale_after_the_first_limit(here: Setting) -> None:
    here.server.will(Hang(headers=False))
    task = asyncio.create_task(here.ask())
    async with asyncio.timeout(LIMIT_S):
        sent = await here.server.asked(1)
    await here.clock.advance(299.0)
    assert not task.done()
    await turning(here.clock, task, 1.0)
    with pytest.raises(ModelCallError) as caught:
        await task
    assert caught.value.failure.kind is K.STALE
    assert here.clock.monotonic() >= 300.0
    async with asyncio.timeout(LIMIT_S):
        await sent.closed()


async def test_a_stream_that_falls_silent_is_stale_after_the_second_limit(here: Setting) -> None:
    here.server.will(Hang("half an answer"))
    heard = Heard()
    task = asyncio.create_task(here.ask(heard=heard))
    await heard.until(lambda: heard.text == "half an answer")
    await here.clock.advance(119.0)
    assert not task.done()
    await turning(here.clock, task, 1.0)
    with pytest.raises(ModelCallError) as caught:
        await task
    assert (caught.value.failure.kind, caught.value.partial) == (K.STALE, "half an answer")
    assert here.clock.monotonic() < 300.0


async def test_a_cancel_from_outside_stays_a_cancel(here: Setting) -> None:
    here.server.will(Hang("x"))
    heard = Heard()
    task = asyncio.create_task(here.ask(heard=heard))
    await heard.until(lambda: bool(heard.text))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# ------------------------------------------------------------- limits, breaker


async def test_calls_above_the_limit_wait_their_turn(clock: ManualClock, tmp_path: Path) -> None:
    async with setting(clock, tmp_path, "openai", max_concurrent=2) as here:
        here.server.will(*(Hang(f"{n} ") for n in range(2)), Say("third"), Say("fourth"))
        tasks = [asyncio.create_task(here.ask(str(n))) for n in range(4)]
        async with asyncio.timeout(LIMIT_S):
            await here.server.asked(2)
            assert here.server.in_flight == 2
            here.server.release()
            await asyncio.gather(*tasks)
        assert here.server.max_in_flight == 2
        assert [sent.last_user_text for sent in here.server.requests] == ["0", "1", "2", "3"]


async def test_L16_a_provider_that_is_down_is_left_alone_and_tried_again_later(here: Setting) -> None:
    for _ in range(3):
        await here.fails(Fail(503, "down"))
    refused = await here.fails()
    assert (refused.kind, len(here.server.requests)) == (K.OVERLOADED, 3)
    assert refused.retry_after_s == pytest.approx(5.0)
    await here.clock.advance(5.0)
    here.server.will(Say("back"))
    assert text_of(await here.ask()) == "back"
    assert text_of(await here.ask("me too")) == "echo: me too"


async def test_while_the_probe_runs_others_wait_and_its_first_piece_frees_them(here: Setting) -> None:
    for _ in range(3):
        await here.fails(Fail(503, "down"))
    await here.clock.advance(5.0)
    here.server.will(Hang("back "))
    heard = Heard()
    probe = asyncio.create_task(here.ask(heard=heard))
    async with asyncio.timeout(LIMIT_S):
        await here.server.asked(4)
    await heard.until(lambda: bool(heard.text))
    assert text_of(await here.ask("me")) == "echo: me"
    here.server.release()
    await probe


async def test_nothing_listens(clock: ManualClock, tmp_path: Path) -> None:
    async with ModelServer() as server:
        url = server.base_url
    settings = Settings(providers={"acme": ProviderSettings(base_url=url)})
    models = ModelDirectory(settings, {}, clock, tmp_path, print)
    with pytest.raises(ModelCallError) as caught:
        await models.ask(request(user("hi"), model=ModelRef(provider="acme", name="m")), Heard())
    await models.close()
    assert caught.value.failure.kind is K.NETWORK
    assert url in caught.value.failure.remedy
    assert "providers.acme.base_url" in caught.value.failure.remedy


@pytest.mark.parametrize("key", ["sk-ünïcode", "“quoted”"])
async def test_a_key_of_odd_characters_is_a_wrong_key(
    clock: ManualClock, tmp_path: Path, provider: str, key: str
) -> None:
    async with setting(clock, tmp_path, provider, api_key=key) as here:
        failure = await here.fails()
    assert failure.kind is K.AUTH
    assert "api_key" in failure.remedy


async def test_first_deltas_come_before_the_answer_is_whole(here: Setting) -> None:
    here.server.will(Hang("first words"))
    heard = Heard()
    task = asyncio.create_task(here.ask(heard=heard))
    await heard.until(lambda: heard.text == "first words")
    assert not task.done()
    here.server.release()
    reply = await task
    assert text_of(reply) == "first words"


async def test_keep_alives_alone_do_not_hold_a_call_for_ever(clock: ManualClock, tmp_path: Path) -> None:
    alive = ": still here\n\n"
    async with setting(clock, tmp_path, "openai") as here:
        here.server.will(Raw((alive, data(chunk({"content": "a"})), alive, alive), end="hang"))
        heard = Heard()
        task = asyncio.create_task(here.ask(heard=heard))
        await heard.until(lambda: heard.text == "a")
        await turning(clock, task, 30.0)
        with pytest.raises(ModelCallError) as caught:
            await task
    assert caught.value.failure.kind is K.STALE
