"""Our login on a Matrix server, over matrix-nio: syncing, sending, and the keys of encrypted rooms.

The library's own waiting and trying again are switched off: a failed call is an
EdgeError at once. Nothing else here imports the library, and nothing imports this
before an account connects.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import aiohttp
import nio  # type: ignore[import-untyped]  # ships no types
import structlog

from actors.clock import Clock
from actors.gateway.edge import EdgeError
from actors.gateway.keeping import Keeping
from actors.gateway.platforms.matrix.errors import error_for
from actors.gateway.platforms.matrix.options import MatrixOptions
from messages.delivery import ProblemKind

log = structlog.get_logger(__name__)

# At DEBUG it logs whole answers: what people say, and the token of a login.
logging.getLogger("nio").setLevel(logging.WARNING)

V3 = "/_matrix/client/v3"
MEDIA = "/_matrix/client/v1/media"
CALL_S = 30.0
POLL_S = 30.0
FIRST_SYNC_S = 300.0
TIMELINE = 50
LARGE = 50_000
"""Bytes of a sync's answer."""


def path(*parts: str, base: str = V3) -> str:
    """Return the path of a call; the parts are encoded."""
    return "/".join((base, *(quote(part, safe="") for part in parts)))


class _Client(nio.AsyncClient):  # type: ignore[misc]  # untyped
    """Reads large answers beside the loop: that of a first sync with many rooms takes a second."""

    async def create_matrix_response(
        self, response_class: Any, transport_response: Any, data: Any = None, save_to: Any = None
    ) -> Any:
        if response_class is not nio.SyncResponse or len(await transport_response.read()) < LARGE:
            return await super().create_matrix_response(response_class, transport_response, data, save_to)
        parsed = await asyncio.to_thread(_object, await transport_response.read())
        answer = await asyncio.to_thread(response_class.from_dict, parsed)
        answer.transport_response = transport_response
        return answer


class Session:
    """One login; made by `opened`, on the loop that uses it."""

    def __init__(self, options: MatrixOptions, keeping: Keeping, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._keeping = keeping
        config = nio.AsyncClientConfig(
            max_limit_exceeded=0,
            max_timeouts=0,
            request_timeout=int(CALL_S),
            encryption_enabled=options.encryption,
            pickle_key=_pickle_key(keeping) if options.encryption else "",
        )
        store = str(keeping.folder) if options.encryption else ""
        self._client = _Client(options.homeserver, options.user_id, store_path=store, config=config)
        self.last_sync = 0.0
        """When the server last answered a sync, on the clock's monotonic time."""

    @property
    def user_id(self) -> str:
        return str(self._client.user_id)

    @property
    def token(self) -> str:
        """Where the last sync ended."""
        return str(self._client.next_batch)

    @property
    def encrypting(self) -> bool:
        return self._client.olm is not None

    def room(self, room_id: str) -> Any:
        """Return what is known of a room that we are in, or None."""
        return self._client.rooms.get(room_id)

    def rooms_before(self, room_id: str) -> tuple[str, ...]:
        """Return the rooms that were closed in favour of this one."""
        return tuple(str(old) for old, room in self._client.rooms.items() if room.replacement_room == room_id)

    def room_of_two(self, user: str) -> str | None:
        """Return a room with this person and us alone."""
        both = {self.user_id, user}
        for room_id, room in self._client.rooms.items():
            heroes = set((room.summary.heroes if room.summary is not None else None) or ())
            if room.member_count == 2 and user in room.users.keys() | heroes and room.users.keys() <= both:
                return str(room_id)
        return None

    def decrypted(self, event: Any) -> Any:
        """Try an encrypted event once more; the raw event, or None while there is no key."""
        if not self.encrypting:
            return None
        try:
            return source_of(self._client.decrypt_event(event))
        except nio.EncryptionError:
            return None

    async def close(self) -> None:
        await self._client.close()
        if self._client.store is not None:
            self._client.store.database.close()

    # ------------------------------------------------------------------ calls

    async def call(
        self,
        method: str,
        where: str,
        body: Any = None,
        *,
        posting: bool = False,
        login: bool = False,
        doing: str = "",
    ) -> dict[str, Any]:
        """Make a call of the client API; return the answer's object. Raises EdgeError."""
        data = None if body is None else json.dumps(body)
        with _lines(posting=posting):
            async with asyncio.timeout(CALL_S):
                answer = await self._client.send(method, where, data, self._headers("application/json"))
                status, told = answer.status, _object(await answer.read())
        if status != 200:
            raise error_for(status, told, answer.headers, posting=posting, login=login, doing=doing)
        return told

    async def fetch(self, where: str) -> aiohttp.ClientResponse:
        """Begin a download; whoever asks reads it and closes it. Raises EdgeError."""
        with _lines():
            async with asyncio.timeout(CALL_S):
                answer: aiohttp.ClientResponse = await self._client.send(
                    "GET", where, None, self._headers(None), timeout=0
                )
        if answer.status != 200:
            told = _object(await answer.content.read(10_000))
            answer.close()
            raise error_for(answer.status, told, answer.headers, doing="fetching a file")
        return answer

    async def upload(self, data: Any, size: int, mime: str, name: str) -> str:
        """Upload a file; return its `mxc://` address. Raises EdgeError."""
        headers = self._headers(mime) | {"Content-Length": str(size)}
        with _lines():
            answer = await self._client.send(
                "POST", f"/_matrix/media/v3/upload?filename={quote(name, safe='')}", data, headers, timeout=0
            )
            status, told = answer.status, _object(await answer.read())
        if status != 200 or not isinstance(told.get("content_uri"), str):
            raise error_for(status, told, answer.headers, doing="uploading a file")
        return str(told["content_uri"])

    def _headers(self, mime: str | None) -> dict[str, str]:
        headers = (
            {"Authorization": f"Bearer {self._client.access_token}"} if self._client.access_token else {}
        )
        return headers | ({"Content-Type": mime} if mime else {})

    async def send(self, room_id: str, kind: str, content: Mapping[str, Any], txn: str) -> str:
        """Put an event into a room, encrypted where the room is; return its id. Raises EdgeError."""
        if not self.encrypting:
            told = await self.call(
                "PUT", path("rooms", room_id, "send", kind, txn), content, posting=True, doing="posting"
            )
            return _event_id(told.get("event_id"))
        with _lines(posting=True):
            async with asyncio.timeout(CALL_S):
                answer = await self._client.room_send(
                    room_id, kind, dict(content), tx_id=txn, ignore_unverified_devices=True
                )
        return _event_id(_checked(answer, posting=True, doing="posting").event_id)

    async def messages(self, room_id: str, start: str, end: str | None) -> tuple[list[Any], str | None]:
        """Return up to 100 events before `start`, newest first, and where to go on; not beyond `end`."""
        with _lines():
            async with asyncio.timeout(CALL_S):
                answer = await self._client.room_messages(room_id, start=start, end=end, limit=100)
        told = _checked(answer, doing="reading what was missed")
        return [source_of(event) for event in told.chunk], told.end

    async def event(self, room_id: str, event_id: str) -> Any:
        """Return one event, decrypted where we can. Raises EdgeError."""
        with _lines():
            async with asyncio.timeout(CALL_S):
                answer = await self._client.room_get_event(room_id, event_id)
        return source_of(_checked(answer, doing="looking up a message").event)

    # ------------------------------------------------------------------ syncing

    async def sync(self, since: str, *, first: bool) -> Any:
        """Wait for what is new after a token. The first sync brings the state of all rooms, at once."""
        options = {"sync_filter": _filter(), "since": since or None}
        limit = FIRST_SYNC_S if first else POLL_S + CALL_S
        with _lines():
            async with asyncio.timeout(limit):
                answer = await (
                    self._client.sync(timeout=0, full_state=True, **options)
                    if first
                    else self._client.sync(timeout=int(POLL_S * 1000), **options)
                )
        told = _checked(answer, doing="syncing")
        self.last_sync = self._clock.monotonic()
        if self.encrypting:
            await self._tend_keys()
        return told

    async def _tend_keys(self) -> None:
        """Do what encryption needs between two syncs. Failing here is no reason to stop reading."""
        client = self._client
        with _lines():
            async with asyncio.timeout(CALL_S):
                if client.should_upload_keys:
                    await client.keys_upload()
                if client.should_query_keys:
                    await client.keys_query()
                if client.should_claim_keys:
                    await client.keys_claim(client.get_users_for_key_claiming())
                await client.send_to_device_messages()

    # ------------------------------------------------------------------ logging in

    async def log_in(self) -> None:
        """Get a token that works: the given one, the one of the last login, or that of a new login."""
        given = self._options.access_token
        if given is not None:
            await self._restore(given.get_secret_value())
            return
        kept = self._keeping.read("login")
        same = kept.get("user_id") == self._options.user_id and kept.get("server") == self._options.homeserver
        device = str(kept.get("device_id") or "") if same else ""
        if device and kept.get("access_token"):
            try:
                await self._restore(str(kept["access_token"]))
            except EdgeError as error:
                if error.problem.kind is not ProblemKind.NEEDS_HUMAN:
                    raise
                log.info("the last login is over; logging in again", why=error.problem.detail)
            else:
                return
        await self._log_in_with_password(device)

    async def _restore(self, token: str) -> None:
        self._client.access_token = token
        told = await self.call("GET", path("account", "whoami"), login=True, doing="logging in")
        user, device = str(told.get("user_id") or ""), str(told.get("device_id") or "")
        if self._options.user_id and user != self._options.user_id:
            raise EdgeError(
                ProblemKind.NEEDS_HUMAN, f"the access token is {user}'s, not {self._options.user_id}'s"
            )
        if self._options.encryption and not device:
            raise EdgeError(
                ProblemKind.NEEDS_HUMAN,
                "this access token belongs to no device: encryption needs one from a login",
            )
        self._client.restore_login(user, device or "none", token)

    async def _log_in_with_password(self, device: str) -> None:
        password = self._options.password
        assert password is not None
        self._client.access_token = ""
        body: dict[str, Any] = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": self._options.user_id},
            "password": password.get_secret_value(),
            "initial_device_display_name": self._options.device_name,
        }
        if device:
            body["device_id"] = device
        told = await self.call("POST", path("login"), body, login=True, doing="logging in")
        kept = {name: str(told.get(name) or "") for name in ("user_id", "device_id", "access_token")}
        self._keeping.write("login", {**kept, "server": self._options.homeserver})
        self._client.restore_login(kept["user_id"], kept["device_id"], kept["access_token"])

    async def log_out(self) -> None:
        """End the login at the server."""
        await self.call("POST", path("logout"), {})


@asynccontextmanager
async def opened(options: MatrixOptions, keeping: Keeping, clock: Clock) -> AsyncIterator[Session]:
    """Log in; whatever happens, the connections are closed at the end. Raises EdgeError."""
    if options.encryption:
        keeping.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    session = Session(options, keeping, clock)
    try:
        await session.log_in()
        yield session
    finally:
        await session.close()


def source_of(event: Any) -> Any:
    """Return the raw event; decrypted, where the library could."""
    return getattr(event, "source", None)


def decrypt_file(data: bytes, secret: Mapping[str, Any]) -> bytes:
    """Decrypt an attachment of an encrypted room. Raises ValueError when key or hash do not fit."""
    try:
        plain = nio.crypto.decrypt_attachment(
            data, secret["key"]["k"], secret["hashes"]["sha256"], secret["iv"]
        )
    except (KeyError, TypeError, nio.EncryptionError) as error:
        raise ValueError(f"it cannot be decrypted ({type(error).__name__})") from None
    return bytes(plain)


def encrypt_file(data: bytes) -> tuple[bytes, dict[str, Any]]:
    """Encrypt an attachment for an encrypted room; return it, and what its readers need."""
    hidden, secret = nio.crypto.encrypt_attachment(data)
    return bytes(hidden), dict(secret)


# ------------------------------------------------------------------ the border to the library


class _lines:  # noqa: N801 reads as a statement
    """Turn what the network and the library raise into EdgeErrors."""

    def __init__(self, *, posting: bool = False) -> None:
        self._posting = posting

    def __enter__(self) -> None:
        return

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        lost = ProblemKind.UNKNOWN if self._posting else ProblemKind.TRANSIENT
        match error:
            case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
                raise EdgeError(ProblemKind.TRANSIENT, f"no connection: {error}") from None
            case TimeoutError():
                raise EdgeError(lost, "no answer in time") from None
            case aiohttp.ClientError() | OSError():
                raise EdgeError(lost, f"the connection was lost: {type(error).__name__}: {error}") from None
            case nio.LocalProtocolError():
                gone = "No such room" in str(error)
                kind = ProblemKind.TARGET_GONE if gone else ProblemKind.TRANSIENT
                raise EdgeError(kind, str(error)) from None
            case nio.EncryptionError() | nio.SendRetryError():
                raise EdgeError(
                    ProblemKind.TRANSIENT, f"the message could not be encrypted: {error}"
                ) from None


def _checked(answer: Any, *, posting: bool = False, doing: str = "") -> Any:
    if not isinstance(answer, nio.ErrorResponse):
        return answer
    transport = answer.transport_response
    told = {"errcode": answer.status_code, "error": answer.message, "retry_after_ms": answer.retry_after_ms}
    status = transport.status if transport is not None else 0
    headers = transport.headers if transport is not None else {}
    raise error_for(status, told, headers, posting=posting, doing=doing)


def _event_id(found: object) -> str:
    if isinstance(found, str) and found:
        return found
    raise EdgeError(ProblemKind.UNKNOWN, "the server's answer names no event")


def _object(raw: bytes) -> dict[str, Any]:
    try:
        told = json.loads(raw)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _filter() -> dict[str, Any]:
    nothing: dict[str, Any] = {"types": []}
    return {
        "presence": nothing,
        "account_data": nothing,
        "room": {
            "timeline": {"limit": TIMELINE},
            "state": {"lazy_load_members": True},
            "ephemeral": nothing,
            "account_data": nothing,
        },
    }


def _pickle_key(keeping: Keeping) -> str:
    """The key that the device's keys are stored under: ours alone, made once."""
    import secrets  # noqa: PLC0415 for encrypted accounts alone

    kept = keeping.read("pickle").get("key")
    if isinstance(kept, str) and kept:
        return kept
    key = secrets.token_hex(32)
    keeping.write("pickle", {"key": key})
    return key
