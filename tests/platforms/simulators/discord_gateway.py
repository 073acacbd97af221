"""The gateway of a simulated Discord: websockets with stream compression, sessions, close codes."""

import asyncio
import json
import zlib
from collections import deque
from typing import Any

import zstandard
from aiohttp import WSMsgType, web

from tests.platforms.simulators.discord_world import (
    APPLICATION,
    BOT,
    GUILD,
    MESSAGE_CONTENT,
    TOKEN,
    Session,
    World,
)

KNOWN_INTENTS = (1 << 26) - 1


class Connection:
    """One websocket, with its compression's context. Implements `discord_world.Line`."""

    def __init__(self, socket: web.WebSocketResponse, kind: str | None, transport: Any) -> None:
        self.socket, self.transport = socket, transport
        self.session: Session | None = None
        self.silent = False
        self._zlib = zlib.compressobj() if kind == "zlib-stream" else None
        self._zstd = zstandard.ZstdCompressor().compressobj() if kind == "zstd-stream" else None

    async def send(self, op: int, d: Any = None, t: str | None = None, s: int | None = None) -> None:
        await self.raw(json.dumps({"op": op, "d": d, "t": t, "s": s}).encode())

    async def raw(self, data: bytes) -> None:
        if self.socket.closed or self.silent:
            return
        try:
            if self._zlib is not None:
                await self.socket.send_bytes(self._zlib.compress(data) + self._zlib.flush(zlib.Z_SYNC_FLUSH))
            elif self._zstd is not None:
                packed = self._zstd.compress(data) + self._zstd.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
                await self.socket.send_bytes(packed)
            else:
                await self.socket.send_str(data.decode())
        except ConnectionError:
            pass  # the other side is gone: the session keeps it for a resume


class Gateway:
    """Takes connections, and can be told to misbehave."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.connections: set[Connection] = set()
        self.heard: deque[dict[str, Any]] = deque(maxlen=100_000)
        """What was sent to us: `op`, and of connections their address."""
        self.heartbeat_ms = 41_250
        self.close_on_identify: list[int] = []
        self.invalid: list[bool] = []
        """How the next IDENTIFYs or RESUMEs are answered with op 9."""
        self.mute_acks = False
        self.turned_away = 0
        """So many connections are answered with 503."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.turned_away > 0:
            self.turned_away -= 1
            return web.Response(status=503)
        socket = web.WebSocketResponse(max_msg_size=0, autoping=True)
        try:
            await socket.prepare(request)
        except ConnectionError:
            return web.Response(status=499)  # gone before it began
        connection = Connection(socket, request.query.get("compress"), request.transport)
        self.connections.add(connection)
        self.heard.append({"op": "connected", "query": dict(request.query)})
        try:
            if request.query.get("v") not in ("9", "10"):
                await socket.close(code=4012)
                return socket
            await connection.send(10, {"heartbeat_interval": self.heartbeat_ms})
            await self._listen(connection)
        finally:
            self.connections.discard(connection)
            if connection.session is not None and connection.session.line is connection:
                connection.session.line = None
        self.heard.append({"op": "closed", "code": socket.close_code})
        return socket

    async def _listen(self, connection: Connection) -> None:
        async for frame in connection.socket:
            if frame.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                continue
            try:
                told = json.loads(frame.data)
                op, data = told["op"], told.get("d")
            except (ValueError, KeyError, TypeError):
                await connection.socket.close(code=4002)
                return
            seq = data.get("seq") if op == 6 and isinstance(data, dict) else None
            self.heard.append({"op": op, "seq": seq})
            code = await self._take(connection, op, data)
            if code is not None:
                await connection.socket.close(code=code)
                return

    async def _take(self, connection: Connection, op: Any, data: Any) -> int | None:
        """Handle one message; return the code to close with, if any."""
        if op == 1:
            if not self.mute_acks:
                await connection.send(11)
            return None
        if op == 2:
            return 4005 if connection.session is not None else await self._identify(connection, data)
        if op == 6:
            return await self._resume(connection, data)
        if connection.session is None:
            return 4003
        if op == 8:
            users = [u for u in data.get("user_ids") or [] if str(u) in self.world.users]
            chunk = {"guild_id": GUILD, "members": [], "not_found": [], "chunk_index": 0, "chunk_count": 1}
            members = [{**self.world.member(str(u)), "user": self.world.users[str(u)]} for u in users]
            told = {**chunk, "members": members, "nonce": data.get("nonce")}
            await connection.session.dispatch("GUILD_MEMBERS_CHUNK", told)
            return None
        return None if op in (3, 4) else 4001

    async def _identify(self, connection: Connection, data: Any) -> int | None:
        if data.get("token") != TOKEN:
            return 4004
        if self.close_on_identify:
            return self.close_on_identify.pop(0)
        if self.invalid:
            await connection.send(9, self.invalid.pop(0))
            return None
        intents = data.get("intents")
        if not isinstance(intents, int) or intents & ~KNOWN_INTENTS:
            return 4013
        if intents & MESSAGE_CONTENT and not self.world.content_allowed:
            return 4014
        shard = data.get("shard", [0, 1])
        if not shard[0] < shard[1]:
            return 4010
        session = Session(intents, line=connection)
        connection.session = self.world.sessions[session.id] = session
        address = self.world.base.replace("http", "ws", 1) + "/gateway"
        ready = {
            "v": 10,
            "user": self.world.users[BOT],
            "guilds": [{"id": GUILD, "unavailable": True}],
            "session_id": session.id,
            "resume_gateway_url": address,
            "application": {"id": APPLICATION, "flags": self.world.flags},
        }
        await session.dispatch("READY", ready)
        await session.dispatch("GUILD_CREATE", self.world.guild_face())
        return None

    async def _resume(self, connection: Connection, data: Any) -> int | None:
        if data.get("token") != TOKEN:
            return 4004
        session = self.world.sessions.get(str(data.get("session_id")))
        if self.invalid:
            fine = self.invalid.pop(0)
            if not fine and session is not None:
                del self.world.sessions[session.id]
            await connection.send(9, fine)
            return None
        if session is None:
            await connection.send(9, False)
            return None
        after = data.get("seq")
        if not isinstance(after, int) or after > session.seq:
            return 4007
        connection.session, session.line, session.deaf = session, None, False
        sent = after
        while sent < session.seq:  # more may happen meanwhile
            for seq, name, event in list(session.replay):
                if seq > sent:
                    await connection.send(0, event, name, seq)
                    sent = seq
        session.line = connection
        await session.dispatch("RESUMED", {})
        return None

    # ------------------------------------------------------------------ under a test's hand

    async def close_all(self, code: int) -> None:
        await asyncio.gather(*(c.socket.close(code=code) for c in tuple(self.connections)))

    def cut_all(self) -> None:
        for connection in tuple(self.connections):
            if connection.transport is not None:
                connection.transport.abort()

    async def send_all(self, op: int, data: Any) -> None:
        for connection in tuple(self.connections):
            await connection.send(op, data)

    async def raw_all(self, data: bytes) -> None:
        for connection in tuple(self.connections):
            await connection.raw(data)
