"""One connection to Discord while it lasts: the gateway, the API, what is heard, what is said and shown."""

import asyncio
from collections.abc import Callable

import structlog

from actors.gateway.edge import EdgeContext, EdgeError, Hear
from actors.gateway.platforms.discord.gateway import Gateway
from actors.gateway.platforms.discord.hearing import Hearing
from actors.gateway.platforms.discord.interactions import Interactions
from actors.gateway.platforms.discord.listening import EVENTS, Listener
from actors.gateway.platforms.discord.missed import channel_marks
from actors.gateway.platforms.discord.options import DiscordOptions
from actors.gateway.platforms.discord.rest import Rest, settled
from actors.gateway.platforms.discord.saying import Memory, Sayer
from messages.delivery import Post, ProblemKind, ReactionShown, TypingShown

log = structlog.get_logger(__name__)

SIGNS = {"seen": "👀", "working": "⏳", "done": "✅", "failed": "❌"}
REACTION_PATIENCE_S = 1.0
"""Discord allows one reaction each quarter of a second: that is waited for."""
MUTED_S = 600.0
"""So long a view is not tried again where the bot lacks the permission: refused calls count against it."""
TYPING = "/channels/{channel}/typing"
REACTION = "/channels/{channel}/messages/{message}/reactions/{emoji}/@me"


class Live:
    """Made on the running loop; `run` once."""

    def __init__(
        self,
        options: DiscordOptions,
        context: EdgeContext,
        chance: Callable[[], float],
        hear: Hear,
        on_session: Callable[[], None],
    ) -> None:
        clock = context.clock
        self._context = context
        self._rest = Rest(options, clock)
        self._hearing = Hearing(hear, clock, channel_marks(context.last_heard))
        self.sayer = Sayer(self._rest, clock, options, Interactions(self._rest, clock))
        self.listener = Listener(options, context, self._rest, self.sayer, self._hearing, on_session)
        self._gateway = Gateway(self._rest, options, clock, self.listener.on_event, EVENTS, chance)
        self._gateway.on_cut = self._cut
        self._signs = Memory()
        """Our reaction on each message."""
        self._muted: dict[tuple[str, str], float] = {}

    async def run(self) -> None:
        """Hear until the connection ends. Raises EdgeError; leaves nothing behind."""
        async with self._rest:
            gateway = asyncio.create_task(self._gateway.run())
            try:
                await asyncio.wait({gateway, self._hearing.failed}, return_when=asyncio.FIRST_COMPLETED)
                if gateway.done():
                    gateway.result()
                else:
                    self._hearing.failed.result()
            finally:
                await settled(gateway)
                await self.listener.close()
                await self._hearing.close()

    def _cut(self, why: str, failures: int) -> None:
        if failures > 1:
            self._context.trouble(f"reconnecting: {why}")

    async def probe(self) -> None:
        """A heartbeat must be echoed, and a question about ourselves answered by an event."""
        guild = next(iter(self.listener.places.guilds), None)
        await self._gateway.prove(guild, self.sayer.user)

    # ------------------------------------------------------------------ saying and showing

    async def say(self, post: Post) -> str:
        try:
            return await self.sayer.say(post)
        except EdgeError as error:
            raise self._seen(error) from None

    async def find(self, post: Post) -> str | None:
        try:
            return await self.sayer.find(post)
        except EdgeError as error:
            raise self._seen(error) from None

    def _seen(self, error: EdgeError) -> EdgeError:
        """While the line is cut, a service that cannot be reached says nothing about the post."""
        if error.problem.kind is ProblemKind.TRANSIENT and not self._gateway.ready:
            return EdgeError(ProblemKind.NOT_CONNECTED, error.problem.detail)
        return error

    async def show(self, view: TypingShown | ReactionShown) -> None:
        """Show it; what Discord does not allow there is left out for a while."""
        if isinstance(view, ReactionShown) and self.sayer.interactions.known(view.message_id):
            return  # a command is no message
        channel = await self.sayer.channel(view.place)
        muted, now = (channel, view.kind), self._context.clock.monotonic()
        if self._muted.get(muted, 0.0) > now:
            return
        try:
            if isinstance(view, TypingShown):
                await self._rest.call("POST", TYPING, channel=channel)
            else:
                await self._react(channel, view)
        except EdgeError as error:
            if error.problem.kind is ProblemKind.REFUSED:
                return  # the message is gone, or its author has blocked us
            if error.problem.kind is not ProblemKind.TARGET_GONE:
                raise
            log.info("discord does not allow this here", view=view.kind, channel=channel)
            if len(self._muted) > 1000:
                self._muted = {key: until for key, until in self._muted.items() if until > now}
            self._muted[muted] = now + MUTED_S

    async def _react(self, channel: str, view: ReactionShown) -> None:
        old, new = self._signs.get(view.message_id), SIGNS.get(view.sign)
        if old == new and new is not None:
            return
        if new is not None:
            await self._reaction("PUT", channel, view.message_id, new)
            self._signs.note(view.message_id, new)
        else:
            self._signs.pop(view.message_id, None)
        # Of an earlier life nothing is known: `none` takes all of ours away then.
        for emoji in (old,) if old is not None else SIGNS.values() if new is None else ():
            try:
                await self._reaction("DELETE", channel, view.message_id, emoji)
            except EdgeError as error:
                if error.problem.kind is not ProblemKind.REFUSED:  # it is not there
                    raise

    async def _reaction(self, method: str, channel: str, message: str, emoji: str) -> None:
        patience = REACTION_PATIENCE_S
        await self._rest.call(
            method, REACTION, channel=channel, message=message, emoji=emoji, patience_s=patience
        )
