"""A platform for tests of isolation: it connects to nothing, and does what the posts say."""

import asyncio
import ctypes
import os
import time
from collections.abc import Callable

from pydantic import BaseModel, ConfigDict, SecretStr

from actors.gateway.edge import EdgeContext, EdgeError, Hear
from actors.gateway.registry import Capabilities, Limits, PlatformEntry
from messages.delivery import DraftShown, EdgeView, Post, ProblemKind
from messages.gateway import Acceptance, Author, ChatType, MessageReceived, Origin
from messages.ids import MessageId


class TrialOptions(BaseModel):
    """`platforms.trial.options`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    token: SecretStr = SecretStr("a token of some length")
    refuses: bool = False
    imports_badly: bool = False


class TrialEdge:
    """Implements `actors.gateway.edge.Edge`."""

    def __init__(self, options: TrialOptions, context: EdgeContext) -> None:
        self._options = options
        self._context = context
        self._hear: Hear | None = None
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._deaf = False
        if options.imports_badly:
            raise ImportError("the SDK is not there")

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        if self._options.refuses:
            raise EdgeError(ProblemKind.NEEDS_HUMAN, "give me a new token")
        self._hear = hear
        connected()
        await self._end

    async def say(self, post: Post) -> str:
        match post.body.text.partition(" "):
            case "fails", _, kind:
                raise EdgeError(
                    ProblemKind(kind), "told to fail", retry_after_s=7.0, whole_account=True, moved_to="hall"
                )
            case "mistakes", _, _:
                raise KeyError("a mistake of the edge's own")
            case "crashes", _, _:
                self._end.set_exception(KeyError("a mistake of the edge's own"))
            case "ends", _, _:
                self._end.set_result(None)
            case "falls", _, _:
                self._end.set_exception(EdgeError(ProblemKind.TRANSIENT, "the line went dead"))
            case "hangs", _, _:
                await asyncio.Event().wait()
            case "blocks", _, seconds:
                time.sleep(float(seconds))  # noqa: ASYNC251 that is what is wanted
            case "faults", _, _:
                ctypes.string_at(0)
            case "dies", _, _:
                os.kill(os.getpid(), 9)
            case "forges", _, _:
                assert self._hear is not None
                mine = self._message(0)
                origin = mine.origin.model_copy(update={"platform": "discord"})
                await self._hear(mine.model_copy(update={"origin": origin}))
            case "hears", _, count:
                return await self._hears(int(count))
            case "troubles", _, text:
                self._context.trouble(text)
            case "knows", _, place:
                return self._context.last_heard[place].message_id
            case "token", _, _:
                return self._options.token.get_secret_value()
            case "commands", _, _:
                return ",".join(command.name for command in self._context.commands)
            case "deaf", _, _:
                self._deaf = True
            case "pid", _, _:
                return str(os.getpid())
        return f"post-{post.key[:4]}"

    async def _hears(self, count: int) -> str:
        """Hear so many messages at once; return the ids of those that were taken, in order."""
        assert self._hear is not None
        hear = self._hear
        receipts = await asyncio.gather(*(hear(self._message(number)) for number in range(count)))
        return ",".join(r.message_id for r in receipts if r.acceptance is Acceptance.ACCEPTED)

    def _message(self, number: int) -> MessageReceived:
        return MessageReceived(
            message_id=MessageId(f"m{number}"),
            origin=Origin(platform="trial", chat_type=ChatType.GROUP, chat="lobby", user="ann"),
            author=Author(id="ann", name="Ann 😀"),
            text=f"text {number} \x00 \U0001f600",
            at=self._context.clock.now(),
        )

    async def find(self, post: Post) -> str | None:
        return "post-1" if post.key.startswith("ab") else None

    async def show(self, view: EdgeView) -> str | None:
        return "draft-1" if isinstance(view, DraftShown) else None

    async def probe(self) -> None:
        if self._deaf:
            raise EdgeError(ProblemKind.TRANSIENT, "no answer to the probe")


PLATFORM = PlatformEntry(
    name="trial",
    factory=TrialEdge,
    config=TrialOptions,
    limits=Limits(4000),
    capabilities=Capabilities(threads=True, edits=True),
)
