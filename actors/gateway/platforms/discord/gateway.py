"""The gateway's connection: discord.py's websocket, and our own rule for coming back.

discord.py's websocket does the protocol: compression, heartbeats, identify, resume. Its
client does not fit: it keeps what it hears in memory, hides close codes, and waits as it
likes. `_Host` is the little of a client that the websocket asks for; all access to
discord.py's private names stands in this file.
"""

import asyncio
import logging
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import aiohttp
import structlog
import yarl

from actors.clock import Clock
from actors.gateway.edge import EdgeError
from actors.gateway.platforms.discord.errors import Close, DiscordError, of_close
from actors.gateway.platforms.discord.options import DiscordOptions
from actors.gateway.platforms.discord.rest import Rest, settled
from actors.gateway.platforms.discord.sdk import (
    ConnectionClosed,
    DiscordWebSocket,
    Intents,
    ReconnectWebSocket,
)
from messages.delivery import ProblemKind

log = structlog.get_logger(__name__)

# It tells of every session with its id. Its warnings, of a blocked loop for one, are welcome.
logging.getLogger("discord.gateway").setLevel(logging.WARNING)

HEARTBEAT_TIMEOUT_S = 60.0
READY_S = 20.0
"""A connection that has no session after so long is given up."""
CLOSE_S = 0.5
"""So long the other side is waited for when a connection is closed."""
OUTAGE_S = 60.0
"""After so long without a session the platform's actor shall know."""
PROOF_S = 10.0
HEALTHY_S = 5.0
IDENTIFY_EVERY_S = 5.0

OnEvent = Callable[[str, dict[str, Any]], None]


@dataclass(slots=True)
class Resumable:
    """Where a session can go on."""

    session: str
    sequence: int | None
    url: yarl.URL


def pause(failures: int, chance: float, *, refused: bool) -> float:
    """Say how long to wait before connecting again.

    A cut line comes back at once. A service that takes no connection is tried every
    second or so, which costs it nothing; one that answers and fails, ever more rarely.
    """
    if failures <= 1:
        return 0.1 + 0.3 * chance
    longest = 1.5 if refused else 15.0
    return float(min(longest, 0.5 * 2 ** min(failures - 2, 10))) * (0.5 + 0.5 * chance)


class Gateway:
    """Keeps a session with the gateway. `run` once."""

    def __init__(
        self,
        rest: Rest,
        options: DiscordOptions,
        clock: Clock,
        on_event: OnEvent,
        events: Iterable[str],
        chance: Callable[[], float],
    ) -> None:
        self._rest, self._clock, self._chance = rest, clock, chance
        self._on_event = on_event
        names = {"READY", "RESUMED", "GUILD_MEMBERS_CHUNK", *events}
        self._host = _Host(rest, options, {name: partial(self._heard, name) for name in names})
        self._resumable: Resumable | None = None
        self._ready_at: float | None = None
        """When the running connection got its session; None before."""
        self._last_ready: float | None = None
        """When a session was last there at all."""
        self._identified_at: float | None = None
        self._waiting_for: dict[str, asyncio.Future[None]] = {}
        self._asked = 0
        self.on_cut: Callable[[str, int], None] = lambda _, __: None
        """Told, in words, that the line is cut and will be tried again, and the how-manieth failure it is."""

    @property
    def ready(self) -> bool:
        """Whether there is a session on a living connection."""
        return self._ready_at is not None

    async def run(self) -> None:
        """Connect, and come back after each cut. Raises EdgeError when that does not help."""
        failures = 0
        while True:
            refused = False
            try:
                close = await self._connection()
            except EdgeError as error:
                # What somebody must mend, or what must be waited for, ends it; all else is tried again.
                if error.problem.kind in (ProblemKind.NEEDS_HUMAN, ProblemKind.RATE_LIMITED):
                    raise
                close, refused = Close(error.problem.detail), True
            if close.fatal:
                raise DiscordError(ProblemKind.NEEDS_HUMAN, close.words)
            lasted = 0.0 if self._ready_at is None else self._clock.monotonic() - self._ready_at
            self._ready_at = None
            failures = 1 if lasted >= HEALTHY_S else failures + 1
            if not close.resume:
                self._resumable = None
            self._give_up_if_hopeless(close, failures)
            self.on_cut(close.words, failures)
            wait = pause(failures, self._chance(), refused=refused)
            if self._resumable is None and not refused:
                wait = max(wait, self._identify_wait())
            log.info(
                "discord reconnects",
                why=close.words,
                in_s=round(wait, 2),
                resumes=self._resumable is not None,
            )
            await self._clock.sleep(wait)

    def _give_up_if_hopeless(self, close: Close, failures: int) -> None:
        now = self._clock.monotonic()
        if self._last_ready is None:
            # The first session never came: only `begin anew` is worth another try here.
            hopeless = close.resume or failures > 3
        else:
            hopeless = now - self._last_ready > OUTAGE_S
        if hopeless:
            raise DiscordError(ProblemKind.TRANSIENT, close.words)

    def _identify_wait(self) -> float:
        """A new session may begin after a random time of one to five seconds, and each five seconds."""
        wait = 1.0 + 4.0 * self._chance()
        if self._identified_at is None:
            return wait
        return max(wait, IDENTIFY_EVERY_S - (self._clock.monotonic() - self._identified_at))

    # ------------------------------------------------------------------ one connection

    async def _connection(self) -> Close:
        """Connect and listen until the end; return what its end means. Raises EdgeError."""
        resumable = self._resumable
        url = resumable.url if resumable else await self._address()
        watch: asyncio.Task[None] | None = None
        for_good = False
        try:
            async with asyncio.timeout(READY_S) as patience:
                await self._open(url, resumable)
                while True:
                    ws = self._host.socket()
                    await ws.poll_event()
                    if self._ready_at is not None and watch is None:
                        patience.reschedule(None)
                        watch = asyncio.create_task(self._watch(ws))
        except ReconnectWebSocket as told:
            return self._ended(resume=told.resume)
        except ConnectionClosed as closed:
            return of_close(closed.code)
        except asyncio.CancelledError:
            for_good = True
            raise
        except TimeoutError:
            return self._ended(words="no session in time")
        except (aiohttp.ClientError, OSError) as error:
            raise DiscordError(ProblemKind.TRANSIENT, f"gateway: {type(error).__name__}: {error}") from None
        except (ValueError, KeyError, TypeError, AttributeError, zlib.error) as error:
            # discord.py reads what comes without doubting it.
            log.warning("discord's gateway sent what cannot be read", error=repr(error)[:200])
            return self._ended(words="the gateway sent what cannot be read")
        except Exception as error:
            if type(error).__name__ != "ZstdError":  # of whichever library unpacks
                raise
            return self._ended(words="the gateway sent what cannot be unpacked")
        finally:
            if watch is not None:
                await settled(watch)
            await self._host.hang_up(for_good=for_good)
            for waiting in self._waiting_for.values():
                if not waiting.done():
                    waiting.set_exception(DiscordError(ProblemKind.TRANSIENT, "the line was cut"))

    async def _open(self, url: yarl.URL, resumable: Resumable | None) -> None:
        if resumable is None:
            self._identified_at = self._clock.monotonic()
        await DiscordWebSocket.from_client(
            cast(Any, self._host),
            gateway=url,
            session=resumable.session if resumable else None,
            sequence=resumable.sequence if resumable else None,
            resume=resumable is not None,
        )

    async def _address(self) -> yarl.URL:
        """Ask where the gateway is, and whether another session may begin today."""
        told = await self._rest.call("GET", "/gateway/bot")
        told = told if isinstance(told, dict) else {}
        limit = told.get("session_start_limit")
        if isinstance(limit, dict) and limit.get("remaining") == 0:
            after = limit.get("reset_after")
            raise DiscordError(
                ProblemKind.RATE_LIMITED,
                "Discord lets this bot begin no more sessions today",
                retry_after_s=after / 1000 if isinstance(after, int | float) else 3600.0,
                whole_account=True,
            )
        url = told.get("url")
        return yarl.URL(url) if isinstance(url, str) and url else DiscordWebSocket.DEFAULT_GATEWAY

    def _ended(self, *, resume: bool = True, words: str = "") -> Close:
        """Say what the end of the connection means, and keep what can be resumed."""
        ws = self._host.ws
        if ws is None:
            return Close(words or "the line was cut")
        if self._resumable is not None and ws.sequence is not None:
            self._resumable.sequence = ws.sequence
        if not resume:
            return Close("Discord has ended the session", resume=False)
        close = of_close(ws.socket.close_code if ws._close_code is None else ws._close_code)  # noqa: SLF001
        return Close(words, resume=close.resume) if words else close

    async def _watch(self, ws: DiscordWebSocket) -> None:
        """Cut a line on which two heartbeats in a row found no echo; discord.py waits for full silence."""
        seen: list[float] = []
        while True:
            alive = ws._keep_alive  # noqa: SLF001
            if alive is None or alive.interval is None:
                return
            seen = [*seen[-2:], alive._last_ack]  # noqa: SLF001
            if len(seen) == 3 and seen[0] == seen[-1]:
                log.warning("discord does not answer heartbeats")
                await ws.close(4000)
                return
            await asyncio.sleep(alive.interval)

    # ------------------------------------------------------------------ events

    def _heard(self, name: str, data: dict[str, Any]) -> None:
        """Called by discord.py for each event; must not raise."""
        ws = self._host.ws
        if ws is not None and ws.session_id is not None:
            if name == "READY":
                self._resumable = Resumable(ws.session_id, ws.sequence, ws.gateway)
            if name in ("READY", "RESUMED"):
                self._ready_at = self._last_ready = self._clock.monotonic()
            if self._resumable is not None:
                self._resumable.sequence = ws.sequence
        if self._ready_at is not None:
            self._last_ready = self._clock.monotonic()
        if name == "GUILD_MEMBERS_CHUNK":
            waiting = self._waiting_for.get(str(data.get("nonce")) if isinstance(data, dict) else "")
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
            return
        self._on_event(name, data if isinstance(data, dict) else {})

    async def prove(self, guild: str | None, user: str) -> None:
        """Prove that heartbeats are echoed, and that events still come. Raises EdgeError.

        The event is the answer to a question about ourselves, which each server answers
        by the same way on which messages come.
        """
        ws = self._host.ws
        if ws is None or not self.ready or ws._keep_alive is None:  # noqa: SLF001
            raise DiscordError(ProblemKind.TRANSIENT, "there is no session with the gateway")
        try:
            async with asyncio.timeout(PROOF_S):
                await self._echo(ws)
                if guild is not None:
                    await self._answer(ws, guild, user)
        except TimeoutError:
            raise DiscordError(
                ProblemKind.TRANSIENT, "the gateway is connected, and answers nothing"
            ) from None
        except (ConnectionError, RuntimeError, ConnectionClosed) as error:
            raise DiscordError(ProblemKind.TRANSIENT, f"the line is dead: {error}") from None

    async def _echo(self, ws: DiscordWebSocket) -> None:
        alive = ws._keep_alive  # noqa: SLF001
        if alive is None:
            raise DiscordError(ProblemKind.TRANSIENT, "the line was cut")
        before = alive._last_ack  # noqa: SLF001
        await ws.send_heartbeat(alive.beat())
        while alive._last_ack == before:  # noqa: SLF001, ASYNC110 discord.py tells nobody of it
            await asyncio.sleep(0.05)

    async def _answer(self, ws: DiscordWebSocket, guild: str, user: str) -> None:
        self._asked += 1
        nonce = f"probe-{self._asked}"
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting_for[nonce] = answer
        try:
            await ws.request_chunks(int(guild), limit=1, user_ids=[int(user)], nonce=nonce)
            await answer
        finally:
            del self._waiting_for[nonce]


class _Host:
    """What discord.py's websocket asks of a client, and nothing more: no caches, no waiting of its own."""

    _enable_debug_events = False

    def __init__(self, rest: Rest, options: DiscordOptions, parsers: dict[str, Any]) -> None:
        self.loop = asyncio.get_running_loop()
        self.http = self
        self._connection = self
        self.token = options.token.get_secret_value()
        self.parsers = parsers
        self.shard_count = None
        self.heartbeat_timeout = HEARTBEAT_TIMEOUT_S
        self._activity = None
        self._status = None
        self._intents = _intents(options)
        self._rest = rest
        self.ws: DiscordWebSocket | None = None

    def socket(self) -> DiscordWebSocket:
        assert self.ws is not None
        return self.ws

    def dispatch(self, *_: object) -> None:
        """Events come by `parsers`."""

    async def call_hooks(self, *_: object, **__: object) -> None:
        """When to identify is decided in `Gateway`."""

    def _update_references(self, ws: DiscordWebSocket) -> None:
        self.ws = ws

    async def ws_connect(self, url: str) -> aiohttp.ClientWebSocketResponse:
        return await self._rest.session.ws_connect(
            url,
            proxy=self._rest.proxy,
            max_msg_size=0,
            timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_S),
            autoclose=False,
        )

    async def hang_up(self, *, for_good: bool) -> None:
        """Close what is open, and stop its heartbeats. With 1000 the session ends, with 4000 it can go on."""
        ws, self.ws = self.ws, None
        if ws is not None:
            await ws.close(code=1000 if for_good else 4000)


def _intents(options: DiscordOptions) -> Intents:
    intents = Intents.none()
    intents.guilds = True
    intents.guild_messages = True
    intents.dm_messages = True
    intents.message_content = options.message_content
    return intents
