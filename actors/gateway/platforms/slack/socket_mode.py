"""Socket Mode: envelopes over a WebSocket that is replaced before Slack ends it.

The SDK's own client connects again by itself and for ever, and tells nobody why it
cannot; here every end is told, and a socket is replaced only while the old one lives:
the new one says hello first, then the old one is let go. What comes twice meanwhile is
known by its identity (see hearing.py).
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiohttp
import structlog

from actors.clock import Alarm, Clock
from actors.gateway.edge import EdgeError
from actors.gateway.platforms.slack.hearing import Hearing
from actors.gateway.platforms.slack.web import Web
from messages.delivery import ProblemKind

log = structlog.get_logger(__name__)

HELLO_S = 15.0
ACK_S = 2.0
"""Slack waits three seconds for an acknowledgement, and sends again."""

LINGER_S = 20.0
"""How long a replaced socket is still listened to; Slack closes it about ten seconds after its warning."""

BEFORE_END_S = 60.0
LOOK_AGAIN_S = 120.0
"""So long after a socket of somebody else's was seen, it is looked whether it is still there."""

RETRY_S = 5.0
MOST_ALARMS = 8
MOST_UNDER_WAY = 300
"""So many envelopes are worked on at once; the next ones wait in the socket."""

LARGEST_FRAME = 4 << 20
SHARED = (
    "another program is connected with this app token: events are split between the two, so each misses some. "
    "End the other one."
)


class _Socket:
    """One WebSocket of ours."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse, hello: dict[str, Any], now: float) -> None:
        self.ws = ws
        self.hello = hello
        self.last_at = now
        self.waits_for_room = False
        self.pong = asyncio.Event()
        self.alarm: Alarm | None = None
        self.tasks: list[asyncio.Task[None]] = []
        self.leaving = False

    @property
    def connections(self) -> int:
        """How many sockets the app has, by Slack's count; 0 when it does not say."""
        told = self.hello.get("num_connections")
        return told if isinstance(told, int) else 0

    @property
    def lives_s(self) -> float | None:
        """How long Slack means to keep it."""
        info = self.hello.get("debug_info")
        told = info.get("approximate_connection_time") if isinstance(info, dict) else None
        sensible = isinstance(told, int | float) and 1 <= told < 1e7
        return float(told) if sensible and told is not None else None


class SocketMode:
    """Keeps one live socket, and for a moment two."""

    def __init__(
        self,
        web: Web,
        http: aiohttp.ClientSession,
        clock: Clock,
        hearing: Hearing,
        trouble: Callable[[str], None],
        heartbeat_s: float,
    ) -> None:
        self._web = web
        self._http = http
        self._clock = clock
        self._hearing = hearing
        self._trouble = trouble
        self._heartbeat_s = heartbeat_s
        self._sockets: list[_Socket] = []
        self._current: _Socket | None = None
        self._news: asyncio.Queue[tuple[_Socket, str | EdgeError]] = asyncio.Queue()
        self._under_way: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(MOST_UNDER_WAY)
        self._alarms: list[Alarm] = []

    async def run(self, connected: Callable[[], None]) -> None:
        """Hear until the connection is lost. Raises EdgeError."""
        try:
            self._current = await self._opened()
            connected()
            while True:
                socket, what = await self._news.get()
                if isinstance(what, EdgeError):
                    self._let_go(socket)
                    if socket is self._current or what.problem.kind is ProblemKind.NEEDS_HUMAN:
                        raise what
                elif socket is self._current:
                    log.info("slack socket is being replaced", why=what)
                    await self._replace(socket)
        finally:
            await self._close()

    async def probe(self) -> None:
        """Send a ping and wait for its answer. Raises EdgeError."""
        socket = self._current
        if socket is None:
            raise EdgeError(ProblemKind.NOT_CONNECTED, "not connected")
        socket.pong.clear()
        try:
            async with asyncio.timeout(self._heartbeat_s):
                await socket.ws.ping(b"probe")
                await socket.pong.wait()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise EdgeError(ProblemKind.TRANSIENT, f"the socket is deaf: {error!r}") from None

    # ------------------------------------------------------------------ sockets come and go

    async def _opened(self) -> _Socket:
        url = await self._web.socket_url()
        try:
            async with asyncio.timeout(HELLO_S):
                ws = await self._http.ws_connect(url, autoping=False, max_msg_size=LARGEST_FRAME)
                try:
                    hello = await self._greeted(ws)
                except BaseException:
                    await _closed(ws)
                    raise
        except aiohttp.WSServerHandshakeError as error:
            raise EdgeError(ProblemKind.TRANSIENT, f"Socket Mode: HTTP {error.status}") from None
        except TimeoutError:
            raise EdgeError(ProblemKind.TRANSIENT, "Socket Mode: no hello came in time") from None
        except (aiohttp.ClientError, OSError) as error:
            raise EdgeError(ProblemKind.TRANSIENT, f"Socket Mode: {error!r}") from None
        socket = _Socket(ws, hello, self._clock.monotonic())
        self._sockets.append(socket)
        loop = asyncio.get_running_loop()
        socket.tasks = [loop.create_task(self._read(socket)), loop.create_task(self._watch(socket))]
        self._plan(socket)
        return socket

    async def _greeted(self, ws: aiohttp.ClientWebSocketResponse) -> dict[str, Any]:
        while True:
            frame = await ws.receive()
            if frame.type is aiohttp.WSMsgType.PING:
                await ws.pong(frame.data)
            elif frame.type is aiohttp.WSMsgType.TEXT:
                envelope = _object(frame.data)
                if envelope.get("type") == "hello":
                    return envelope
                if envelope.get("type") == "disconnect":
                    raise _disconnected(envelope)
            elif frame.type is not aiohttp.WSMsgType.PONG:
                raise EdgeError(ProblemKind.TRANSIENT, f"Socket Mode: closed before hello ({ws.close_code})")

    def _plan(self, socket: _Socket) -> None:
        """Plan the replacement, and look who else is connected."""
        lives = socket.lives_s
        if lives is not None:
            early = max(lives - BEFORE_END_S, lives * 0.8)
            socket.alarm = self._clock.call_later(
                early, lambda: self._tell(socket, "its time is nearly over")
            )
        if socket.connections > len(self._sockets):
            self._trouble(SHARED)
            log.warning(
                "other sockets are open for this app", open=socket.connections, ours=len(self._sockets)
            )
            self._later(LOOK_AGAIN_S, socket, "to see who else is connected")
        elif socket.connections:
            self._trouble("")

    def _tell(self, socket: _Socket, what: str | EdgeError) -> None:
        self._news.put_nowait((socket, what))

    async def _replace(self, old: _Socket) -> None:
        try:
            self._current = await self._opened()
        except EdgeError as error:
            if error.problem.kind is ProblemKind.NEEDS_HUMAN:
                raise
            wait = max(error.problem.retry_after_s or 0.0, RETRY_S)
            log.warning("slack socket could not be replaced", why=error.problem.detail, again_in_s=wait)
            self._later(wait, old, "tried again")
            return
        if old.alarm is not None:
            old.alarm.cancel()
        self._later(LINGER_S, old, EdgeError(ProblemKind.TRANSIENT, "replaced"))

    def _later(self, seconds: float, socket: _Socket, what: str | EdgeError) -> None:
        del self._alarms[:-MOST_ALARMS]
        self._alarms.append(self._clock.call_later(seconds, lambda: self._tell(socket, what)))

    def _let_go(self, socket: _Socket) -> None:
        if socket not in self._sockets:
            return
        self._sockets.remove(socket)
        task = asyncio.get_running_loop().create_task(self._closed_socket(socket))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _closed_socket(self, socket: _Socket) -> None:
        if socket.alarm is not None:
            socket.alarm.cancel()
        for task in socket.tasks:
            task.cancel()
        await asyncio.gather(*socket.tasks, return_exceptions=True)
        await _closed(socket.ws)

    async def _close(self) -> None:
        self._current = None
        for alarm in self._alarms:
            alarm.cancel()
        sockets, self._sockets = self._sockets, []
        await asyncio.gather(*self._closing, *(self._closed_socket(socket) for socket in sockets))
        tasks = tuple(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------------ what comes

    async def _watch(self, socket: _Socket) -> None:
        """Ping, and notice a socket from which nothing comes any more."""
        while True:
            await self._clock.sleep(self._heartbeat_s)
            silent = self._clock.monotonic() - socket.last_at
            if silent > 2.5 * self._heartbeat_s and not socket.waits_for_room:
                self._tell(
                    socket, EdgeError(ProblemKind.TRANSIENT, f"the socket was silent for {silent:.0f} s")
                )
                return
            try:
                async with asyncio.timeout(self._heartbeat_s):
                    await socket.ws.ping(b"heartbeat")
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                self._tell(socket, EdgeError(ProblemKind.TRANSIENT, f"the socket takes no ping: {error!r}"))
                return

    async def _read(self, socket: _Socket) -> None:
        ended = "closed"
        try:
            while True:
                frame = await socket.ws.receive()
                socket.last_at = self._clock.monotonic()
                match frame.type:
                    case aiohttp.WSMsgType.TEXT:
                        await self._frame(socket, frame.data)
                    case aiohttp.WSMsgType.PING:
                        await socket.ws.pong(frame.data)
                    case aiohttp.WSMsgType.PONG:
                        socket.pong.set()
                    case aiohttp.WSMsgType.BINARY:
                        pass
                    case _:
                        ended = f"closed by Slack ({socket.ws.close_code})"
                        break
        except EdgeError as error:
            self._tell(socket, error)
            return
        except (aiohttp.ClientError, OSError) as error:
            ended = repr(error)
        self._tell(socket, EdgeError(ProblemKind.TRANSIENT, f"Socket Mode: {ended}"))

    async def _frame(self, socket: _Socket, text: str) -> None:
        envelope = _object(text)
        match envelope.get("type"):
            case "hello":
                pass
            case "disconnect":
                error = _disconnected(envelope)
                if error.problem.kind is ProblemKind.NEEDS_HUMAN:
                    raise error
                if not socket.leaving:
                    socket.leaving = True
                    self._tell(socket, f"Slack says {envelope.get('reason')}")
            case _ if isinstance(envelope.get("envelope_id"), str):
                socket.waits_for_room = True
                await self._room.acquire()
                socket.waits_for_room = False
                task = asyncio.get_running_loop().create_task(self._envelope(socket, envelope))
                self._under_way.add(task)
                task.add_done_callback(self._done)
            case _:
                log.debug("a frame that is no envelope", type=str(envelope.get("type"))[:40])

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        self._room.release()
        if not task.cancelled() and task.exception() is not None:
            log.error("an envelope could not be worked on", error=repr(task.exception()))

    async def _envelope(self, socket: _Socket, envelope: dict[str, Any]) -> None:
        """Hand in, then acknowledge; at the latest just before Slack would send it again."""
        taking = asyncio.ensure_future(self._hearing.take(envelope))
        try:
            if envelope.get("type") == "events_api":
                await asyncio.wait([taking], timeout=ACK_S)
            if taking.done() and not taking.cancelled() and taking.exception() is not None:
                log.warning("a message was not taken; Slack will send it again", why=repr(taking.exception()))
                return
            await self._acknowledge(socket, envelope["envelope_id"])
            try:
                await taking
            except EdgeError as error:
                await self._hearing.take_at_last(envelope, error)
        except EdgeError as error:
            # The next connection looks into the channels' history for it.
            if self._current is not None:
                self._tell(self._current, error)
        finally:
            taking.cancel()

    async def _acknowledge(self, socket: _Socket, envelope_id: str) -> None:
        try:
            await socket.ws.send_json({"envelope_id": envelope_id})
        except (aiohttp.ClientError, OSError) as error:
            # It comes again on another socket, and is known then.
            log.info("an envelope could not be acknowledged", why=repr(error))


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _disconnected(envelope: dict[str, Any]) -> EdgeError:
    reason = str(envelope.get("reason"))[:100]
    if reason == "link_disabled":
        detail = "Socket Mode was switched off: api.slack.com/apps → your app → Socket Mode"
        return EdgeError(ProblemKind.NEEDS_HUMAN, detail)
    return EdgeError(ProblemKind.TRANSIENT, f"Slack asks for another connection: {reason}")


async def _closed(ws: aiohttp.ClientWebSocketResponse) -> None:
    try:
        async with asyncio.timeout(1.0):
            await ws.close()
    except TimeoutError:
        log.debug("a socket was left without a farewell")
