"""A model in the hand of a test: it does what it was told, in order, and keeps what it was asked.

    models = FakeModels()
    models.will_call("read_file", path="a.txt")
    models.will_say("It says hello.")
    ...
    await models.asked(2)
    assert models.requests[1].entries[-1] == ResultsEntry(...)

No clock and no chance are in it: what is scripted is said at once, and what
hangs hangs until `release()` or until the task that asks is cancelled.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from actors.session.models.port import ModelCallError
from messages.blocks import AssistantBlock, TextBlock, ThinkingBlock, ToolCallBlock
from messages.ids import CallId
from messages.model import (
    CallDelta,
    Delta,
    Failure,
    FailureKind,
    ModelRef,
    ModelReply,
    ModelRequest,
    StopReason,
    TextDelta,
    ThinkingDelta,
    Usage,
)

FAKE = ModelRef(provider="fake", name="fake-1")


@dataclass(frozen=True)
class _Reply:
    blocks: tuple[AssistantBlock, ...]
    stop: StopReason
    raw_stop: str
    usage: Usage
    pieces: tuple[str, ...] | None = None


@dataclass(frozen=True)
class _Failing:
    kind: FailureKind
    detail: str
    remedy: str
    retry_after_s: float | None
    status: int | None
    partial: str


@dataclass(frozen=True)
class _Hanging:
    after: str


_Step = _Reply | _Failing | _Hanging


class FakeModels:
    """The models' port, scripted. `model` None means that no model is configured at all."""

    def __init__(self, model: ModelRef | None = FAKE, *, others: tuple[ModelRef, ...] = ()) -> None:
        self.requests: list[ModelRequest] = []
        self.cancelled = 0
        """Calls whose task was cancelled before they ended."""
        self.in_flight = 0
        self._model = model
        self._others = others
        self._steps: deque[_Step] = deque()
        self._otherwise: Callable[[ModelRequest], str] | None = None
        self._window = 128_000
        self._hung: list[asyncio.Event] = []
        self._changed = asyncio.Condition()
        self._calls_made = 0

    # ---------------------------------------------------------------- verbs

    def will_say(
        self,
        text: str,
        *,
        stop: StopReason = StopReason.END,
        raw_stop: str = "stop",
        thinking: str = "",
        usage: Usage | None = None,
        pieces: tuple[str, ...] | None = None,
    ) -> None:
        """Answer the next call with this text ('' for an answer without any), in those pieces if given."""
        blocks: list[AssistantBlock] = []
        if thinking:
            blocks.append(ThinkingBlock(text=thinking, provider=FAKE.provider))
        if text:
            blocks.append(TextBlock(text=text))
        usage = usage or Usage(input_tokens=10, output_tokens=max(1, len(text) // 4))
        self._steps.append(_Reply(tuple(blocks), stop, raw_stop, usage, pieces))

    def will_call(self, tool: str, /, **arguments: object) -> CallId:
        """Answer the next call with one tool call; return its id."""
        return self.will_call_all((tool, arguments))[0]

    def will_call_all(
        self,
        *calls: tuple[str, dict[str, object] | str],
        text: str = "",
        stop: StopReason = StopReason.TOOL_CALLS,
    ) -> tuple[CallId, ...]:
        """Answer the next call with several tool calls at once; arguments may be raw JSON text."""
        blocks: list[AssistantBlock] = [TextBlock(text=text)] if text else []
        ids: list[CallId] = []
        for name, arguments in calls:
            self._calls_made += 1
            ids.append(CallId(f"call-{self._calls_made}"))
            raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
            blocks.append(ToolCallBlock(call_id=ids[-1], name=name, arguments=raw))
        usage = Usage(input_tokens=10, output_tokens=10)
        self._steps.append(_Reply(tuple(blocks), stop, "tool_calls", usage))
        return tuple(ids)

    def will_fail(
        self,
        kind: FailureKind,
        *,
        detail: str = "scripted",
        remedy: str = "",
        retry_after_s: float | None = None,
        status: int | None = None,
        partial: str = "",
    ) -> None:
        """Fail the next call in this way; `partial` is text that arrived before."""
        self._steps.append(_Failing(kind, detail, remedy, retry_after_s, status, partial))

    def will_hang(self, after: str = "") -> None:
        """Let the next call stand still, after this text, until `release()`; then it goes on with the next step."""
        self._steps.append(_Hanging(after))

    def otherwise(self, answer: Callable[[ModelRequest], str]) -> None:
        """Answer so whenever nothing is scripted (without this, an unscripted call is a test's mistake)."""
        self._otherwise = answer

    def has_window(self, tokens: int) -> None:
        """Say that every model has a context window of so many tokens."""
        self._window = tokens

    def has_model(self, model: ModelRef | None) -> None:
        """Change which model is configured; None for none."""
        self._model = model

    def release(self) -> int:
        """Let all calls that hang go on; return how many did."""
        hung, self._hung = self._hung, []
        for event in hung:
            event.set()
        return len(hung)

    async def asked(self, times: int) -> None:
        """Wait until so many requests have arrived, all told."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.requests) >= times)

    @property
    def left(self) -> int:
        """How many scripted steps were not used."""
        return len(self._steps)

    # ------------------------------------------------------------- the port

    async def ask(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        self.requests.append(request)
        self.in_flight += 1
        try:
            await self._tell()
            return await self._play(request, on_delta)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1

    def choose(self, wanted: ModelRef | None) -> ModelRef:
        if wanted is not None:
            return wanted
        if self._model is None:
            raise ModelCallError(
                Failure(
                    kind=FailureKind.NO_MODEL,
                    detail="no model is configured",
                    remedy="No model is connected. Set OPENAI_API_KEY.",
                    model=ModelRef(provider="none", name="none"),
                )
            )
        return self._model

    def resolve(self, text: str) -> ModelRef:
        for model in self.known():
            if text.strip() in (model.name, f"{model.provider}/{model.name}"):
                return model
        names = ", ".join(f"{model.provider}/{model.name}" for model in self.known())
        raise ValueError(f"no model is called {text!r}; known are: {names or 'none'}")

    def context_window(self, model: ModelRef) -> int:
        return self._window

    def known(self) -> tuple[ModelRef, ...]:
        own = () if self._model is None else (self._model,)
        return (*own, *self._others)

    # -------------------------------------------------------------- inside

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _play(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        said = ""
        while True:
            match self._next(request):
                case _Hanging(after=after):
                    if after:
                        said += after
                        on_delta(TextDelta(text=after))
                    event = asyncio.Event()
                    self._hung.append(event)
                    await event.wait()
                case _Failing() as failing:
                    raise _error(failing, request.model, said, on_delta)
                case _Reply() as reply:
                    _stream(reply, on_delta)
                    return ModelReply(
                        blocks=reply.blocks,
                        stop=reply.stop,
                        raw_stop=reply.raw_stop,
                        model=request.model,
                        usage=reply.usage,
                        first_token_ms=1.0,
                    )

    def _next(self, request: ModelRequest) -> _Step:
        if self._steps:
            return self._steps.popleft()
        if self._otherwise is None:
            raise AssertionError(f"nothing is scripted for request {len(self.requests)}: {request!r}")
        text = self._otherwise(request)
        return _Reply((TextBlock(text=text),), StopReason.END, "stop", Usage())


def _error(
    failing: _Failing, model: ModelRef, said: str, on_delta: Callable[[Delta], None]
) -> ModelCallError:
    if failing.partial:
        on_delta(TextDelta(text=failing.partial))
    failure = Failure(
        kind=failing.kind,
        detail=failing.detail,
        remedy=failing.remedy,
        retry_after_s=failing.retry_after_s,
        status=failing.status,
        model=model,
    )
    return ModelCallError(failure, said + failing.partial)


def _stream(reply: _Reply, on_delta: Callable[[Delta], None]) -> None:
    for block in reply.blocks:
        match block:
            case ThinkingBlock():
                on_delta(ThinkingDelta(text=block.text))
            case ToolCallBlock():
                on_delta(CallDelta(call_id=block.call_id, name=block.name))
            case TextBlock():
                for piece in reply.pieces or (block.text,):
                    on_delta(TextDelta(text=piece))
