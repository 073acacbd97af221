"""One contract for all that stands behind the models' port: the fake, and both protocols over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol as Typed

import pytest

from actors.session.models.directory import ModelDirectory
from actors.session.models.port import ModelCallError, Models
from messages.blocks import TextBlock, ToolCallBlock
from messages.model import Delta, FailureKind, ModelRef, StopReason, TextDelta
from messages.settings import ModelSettings, ProviderSettings, Settings
from tests.actors.session.models.wires import TOOL, calls_of, request, text_of, user
from tests.counterparts.model_server import Call, Fail, Hang, ModelServer, Raw, Reply, Say
from tests.fakes.clock import ManualClock
from tests.fakes.model import FakeModels

LIMIT_S = 30
"""Only so that a mistake ends; nothing is measured by it."""


class Scripted(Typed):
    """Models with a script: the fake by itself, the real ones by their server."""

    models: Models
    model: ModelRef

    def will_say(self, text: str) -> None: ...
    def will_call(self, name: str, arguments: str) -> None: ...
    def will_fail(self, kind: FailureKind) -> None: ...
    def will_hang(self, after: str) -> None: ...
    async def sees_the_end(self) -> None: ...


class Fake:
    def __init__(self) -> None:
        self.fake = FakeModels()
        self.models: Models = self.fake
        self.model = self.fake.choose(None)

    def will_say(self, text: str) -> None:
        self.fake.will_say(text)

    def will_call(self, name: str, arguments: str) -> None:
        self.fake.will_call_all((name, arguments))

    def will_fail(self, kind: FailureKind) -> None:
        self.fake.will_fail(kind)

    def will_hang(self, after: str) -> None:
        self.fake.will_hang(after)

    async def sees_the_end(self) -> None:
        assert self.fake.cancelled == 1


FAILING: dict[FailureKind, Reply] = {
    FailureKind.AUTH: Fail(401, {"error": {"type": "authentication_error", "message": "no"}}),
    FailureKind.RATE_LIMITED: Fail(429, {"error": {"type": "rate_limit_error", "message": "no"}}),
    FailureKind.OVERLOADED: Fail(529, {"error": {"type": "overloaded_error", "message": "no"}}),
    FailureKind.CUT: Raw((": nothing\n\n",)),
    FailureKind.NOT_FOUND: Fail(404, {"error": {"type": "not_found_error", "message": "no"}}),
}


class Real:
    def __init__(self, models: ModelDirectory, server: ModelServer, provider: str) -> None:
        self.models: Models = models
        self.server = server
        self.model = ModelRef(provider=provider, name="scripted-1")

    def will_say(self, text: str) -> None:
        self.server.will(Say(text))

    def will_call(self, name: str, arguments: str) -> None:
        self.server.will(Call((name, arguments)))

    def will_fail(self, kind: FailureKind) -> None:
        self.server.will(FAILING[kind])

    def will_hang(self, after: str) -> None:
        self.server.will(Hang(after))

    async def sees_the_end(self) -> None:
        async with asyncio.timeout(LIMIT_S):
            await self.server.requests[-1].closed()


@pytest.fixture(params=["fake", "openai", "anthropic"])
async def scripted(
    request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path
) -> AsyncIterator[Scripted]:
    if request.param == "fake":
        yield Fake()
        return
    async with ModelServer() as server:
        settings = Settings(
            model=ModelSettings(provider=request.param),
            providers={
                "openai": ProviderSettings(base_url=server.base_url),
                "anthropic": ProviderSettings(base_url=server.anthropic_url, protocol="anthropic-messages"),
            },
        )
        models = ModelDirectory(settings, {}, clock, tmp_path, print)
        yield Real(models, server, request.param)
        await models.close()


class Heard:
    """Collects deltas; can be waited for."""

    def __init__(self) -> None:
        self.deltas: list[Delta] = []
        self._came = asyncio.Event()

    def __call__(self, delta: Delta) -> None:
        self.deltas.append(delta)
        self._came.set()

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self.deltas if isinstance(delta, TextDelta))

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not holds():
                self._came.clear()
                await self._came.wait()


async def test_it_answers_in_pieces_that_make_the_whole(scripted: Scripted) -> None:
    scripted.will_say("hello big world")
    heard = Heard()
    reply = await scripted.models.ask(request(user("hi"), model=scripted.model), heard)
    assert heard.text == text_of(reply) == "hello big world"
    assert reply.stop is StopReason.END
    assert reply.model == scripted.model
    assert reply.first_token_ms is not None


async def test_it_calls_tools(scripted: Scripted) -> None:
    scripted.will_call("read_file", '{"path": "a"}')
    heard = Heard()
    reply = await scripted.models.ask(request(user("hi"), model=scripted.model, tools=(TOOL,)), heard)
    assert [(name, arguments) for _, name, arguments in calls_of(reply)] == [("read_file", '{"path": "a"}')]
    assert reply.stop is StopReason.TOOL_CALLS
    assert isinstance(reply.blocks[-1], ToolCallBlock)


async def test_L15_it_may_answer_nothing(scripted: Scripted) -> None:
    scripted.will_say("")
    assert (await scripted.models.ask(request(user("hi"), model=scripted.model), Heard())).blocks == ()


@pytest.mark.parametrize("kind", FAILING)
async def test_it_fails_with_a_class(scripted: Scripted, kind: FailureKind) -> None:
    scripted.will_fail(kind)
    with pytest.raises(ModelCallError) as caught:
        await scripted.models.ask(request(user("hi"), model=scripted.model), Heard())
    assert caught.value.failure.kind is kind
    assert caught.value.failure.model == scripted.model


async def test_after_a_failure_it_answers_again(scripted: Scripted) -> None:
    scripted.will_fail(FailureKind.OVERLOADED)
    scripted.will_say("again")
    with pytest.raises(ModelCallError):
        await scripted.models.ask(request(user("hi"), model=scripted.model), Heard())
    reply = await scripted.models.ask(request(user("hi"), model=scripted.model), Heard())
    assert reply.blocks == (TextBlock(text="again"),)


async def test_cancelling_ends_the_call_on_both_sides(scripted: Scripted) -> None:
    scripted.will_hang("half an answer")
    heard = Heard()
    task = asyncio.create_task(scripted.models.ask(request(user("hi"), model=scripted.model), heard))
    await heard.until(lambda: heard.text == "half an answer")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await scripted.sees_the_end()


async def test_calls_run_side_by_side(scripted: Scripted) -> None:
    for _ in range(20):
        scripted.will_say("yes")
    asked = request(user("hi"), model=scripted.model)
    replies = await asyncio.gather(*(scripted.models.ask(asked, Heard()) for _ in range(20)))
    assert [text_of(reply) for reply in replies] == ["yes"] * 20


async def test_it_says_who_answers_and_what_may_be_typed(scripted: Scripted) -> None:
    chosen = scripted.models.choose(scripted.model)
    assert chosen == scripted.model
    assert scripted.models.context_window(chosen) > 1000
    assert scripted.models.resolve(f"{chosen.provider}/{chosen.name}") == chosen
    with pytest.raises(ValueError, match=r"(?i)known"):
        scripted.models.resolve("two words")
