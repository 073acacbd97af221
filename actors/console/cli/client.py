"""Talking to a process through its control socket: requests, and a session's events with reconnect."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

import aiohttp
from pydantic import TypeAdapter

from actors.clock import Clock
from actors.console.cli.invocation import CommandFailedError
from messages.gateway import (
    LiveEvent,
    Receipt,
    SessionStateChanged,
    SessionSummary,
    StatusReport,
    TranscriptEntry,
)
from messages.ids import CallId, MessageId, SessionKey
from messages.search import SearchAsked, SearchFound

_T = TypeVar("_T")

_LIVE: TypeAdapter[LiveEvent] = TypeAdapter(LiveEvent)
_ENTRIES: TypeAdapter[tuple[TranscriptEntry, ...]] = TypeAdapter(tuple[TranscriptEntry, ...])
_SESSIONS: TypeAdapter[tuple[SessionSummary, ...]] = TypeAdapter(tuple[SessionSummary, ...])

_ANSWER_WITHIN_S = 60.0
_SILENT_AT_MOST_S = 60.0
"""A stream of events beats every 15 seconds; one that is silent for so long is dead."""
_LINE_BYTES = 64 * 1024 * 1024
FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 2.0

FindSocket = Callable[[], Path | None]


class NotRunningError(CommandFailedError):
    """Nobody answers on the control socket."""

    def __init__(self, what: str) -> None:
        super().__init__(f"The running process does not answer: {what}", None)


class ApiFailureError(CommandFailedError):
    """The process refused a request; the text says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message, None)
        self.status = status


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The stream of events ended; it is being taken up again."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The stream is up: all earlier entries were given, and what follows is news."""

    state: SessionStateChanged


News = TranscriptEntry | LiveEvent | Connected | Disconnected


class ControlClient:
    """One client for one command. `find` is asked anew for each connection: the process may have restarted."""

    def __init__(self, find: FindSocket, clock: Clock) -> None:
        self._find = find
        self._clock = clock
        self._sessions: dict[Path, aiohttp.ClientSession] = {}
        self._closing = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._closing.aclose()

    # --------------------------------------------------------------- requests

    async def get(self, path: str, **params: str) -> Any:
        """Return the JSON answer. Raises NotRunningError and ApiFailureError."""
        return await self._request("GET", path, params=params)

    async def post(
        self, path: str, body: dict[str, Any] | None = None, *, within_s: float = _ANSWER_WITHIN_S
    ) -> Any:
        """Return the JSON answer. Raises NotRunningError and ApiFailureError."""
        return await self._request("POST", path, body=body or {}, within_s=within_s)

    async def key_of(self, chat: str, platform: str = "terminal") -> SessionKey:
        answer = await self.get("/api/session-key", platform=platform, chat=chat)
        return SessionKey(answer["session_key"])

    async def sessions(self) -> tuple[SessionSummary, ...]:
        return _read(_SESSIONS, (await self.get("/api/sessions"))["sessions"])

    async def transcript(self, key: SessionKey, after: int = 0) -> tuple[TranscriptEntry, ...]:
        return _read(_ENTRIES, (await self.get(f"{_path(key)}/messages", after=str(after)))["entries"])

    async def search(self, asked: SearchAsked) -> SearchFound:
        """Search in all conversations. Raises ApiFailureError 422 when the words say nothing."""
        said = json.loads(asked.model_dump_json(exclude_none=True))
        params = [("role", role) for role in said.pop("roles")]
        params += [(name, str(value)) for name, value in said.items()]
        return SearchFound.model_validate_json(
            json.dumps(await self._request("GET", "/api/search", params=params))
        )

    async def status(self) -> StatusReport:
        return StatusReport.model_validate_json(json.dumps(await self.get("/api/status")))

    async def stop(self, key: SessionKey) -> bool:
        return bool((await self.post(f"{_path(key)}/stop"))["stopped"])

    async def confirm(self, key: SessionKey, call_id: CallId, *, yes: bool) -> bool:
        """Return False when nobody waits for this answer any more."""
        try:
            await self.post(f"{_path(key)}/confirm", {"call_id": call_id, "yes": yes})
        except ApiFailureError as failure:
            if failure.status == 409:
                return False
            raise
        return True

    async def speak(self, text: str, *, chat: str, message_id: MessageId, can_confirm: bool) -> Receipt:
        """Hand in a message once. The same id again does nothing twice, so it may be repeated at will."""
        body = {
            "text": text,
            "chat": chat,
            "platform": "terminal",
            "message_id": message_id,
            "can_confirm": can_confirm,
        }
        status, answer = await self._exchange("POST", "/api/messages", body=body)
        if "acceptance" in answer:
            return Receipt.model_validate_json(
                json.dumps({name: answer[name] for name in Receipt.model_fields if name in answer})
            )
        raise ApiFailureError(status, _why(answer, status))

    async def speak_surely(
        self, text: str, *, chat: str, message_id: MessageId, can_confirm: bool
    ) -> Receipt:
        """Hand in a message; while nobody answers, or the process starts or stops, try again."""
        wait = FIRST_WAIT_S
        while True:
            try:
                return await self.speak(text, chat=chat, message_id=message_id, can_confirm=can_confirm)
            except NotRunningError:
                pass
            except ApiFailureError as failure:
                if failure.status != 503:
                    raise
            await self._clock.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_S)

    async def _request(self, method: str, path: str, **more: Any) -> Any:
        status, answer = await self._exchange(method, path, **more)
        if status >= 400:
            raise ApiFailureError(status, _why(answer, status))
        return answer

    async def _exchange(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | list[tuple[str, str]] | None = None,
        body: dict[str, Any] | None = None,
        within_s: float = _ANSWER_WITHIN_S,
    ) -> tuple[int, Any]:
        timeout = aiohttp.ClientTimeout(total=within_s)
        try:
            async with self._session().request(
                method, f"http://localhost{path}", params=params, json=body, timeout=timeout
            ) as response:
                raw = await response.read()
                status = response.status
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError, OSError) as error:
            raise NotRunningError(str(error)) from error
        try:
            return status, json.loads(raw)
        except ValueError:
            return status, {"error": {"message": raw.decode("utf-8", "replace")[:300]}}

    def _session(self) -> aiohttp.ClientSession:
        path = self._find()
        if path is None:
            raise NotRunningError("no process serves this data folder")
        found = self._sessions.get(path)
        if found is None:
            found = aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(str(path)), read_bufsize=_LINE_BYTES // 64, trust_env=False
            )
            self._sessions[path] = found
            self._closing.push_async_callback(found.close)
        return found

    # ----------------------------------------------------------------- events

    async def news(self, key: SessionKey, after: int) -> AsyncIterator[News]:
        """Follow a session for ever: each entry with `seq > after` once, and live events between.

        When the connection ends, says Disconnected and connects again from the
        last entry that was given: nothing is lost, nothing comes twice.
        """
        last = after
        wait = FIRST_WAIT_S
        while True:
            try:
                async for event in self._stream(key, last):
                    wait = FIRST_WAIT_S
                    if isinstance(event, TranscriptEntry):
                        if event.seq <= last:
                            continue
                        last = event.seq
                    yield event
            except NotRunningError:
                pass
            except ApiFailureError as failure:
                if failure.status != 503:
                    raise
            yield Disconnected()
            await self._clock.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_S)

    async def _stream(
        self, key: SessionKey, after: int
    ) -> AsyncIterator[TranscriptEntry | LiveEvent | Connected]:
        url = f"http://localhost{_path(key)}/events"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=_SILENT_AT_MOST_S)
        try:
            async with self._session().get(url, params={"after": str(after)}, timeout=timeout) as response:
                if response.status != 200:
                    raise ApiFailureError(response.status, (await response.text())[:300])
                async for name, data in server_events(response.content.iter_any()):
                    match name:
                        case "entry":
                            yield TranscriptEntry.model_validate_json(data)
                        case "live":
                            yield _LIVE.validate_json(data)
                        case "ready":
                            yield Connected(SessionStateChanged.model_validate_json(data))
                        case "lost" | "closing":
                            return
                        case _:
                            pass
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError, OSError) as error:
            raise NotRunningError(str(error)) from error


async def server_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, str]]:
    """Give (name, data) of each server-sent event. An event cut off by the end is dropped, as it must be."""
    buffer = b""
    name = ""
    data: list[str] = []
    async for chunk in chunks:
        buffer += chunk
        *lines, buffer = buffer.split(b"\n")
        for raw in lines:
            line = raw.rstrip(b"\r").decode("utf-8", "replace")
            if not line:
                if data:
                    yield name, "\n".join(data)
                name, data = "", []
            elif line.startswith("event:"):
                name = line[6:].strip()
            elif line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))


def _path(key: SessionKey) -> str:
    return f"/api/sessions/{quote(key, safe='')}"


def _read(adapter: TypeAdapter[_T], content: object) -> _T:
    return adapter.validate_json(json.dumps(content))


def _why(answer: Any, status: int) -> str:
    error = answer.get("error") if isinstance(answer, dict) else None
    if isinstance(error, dict) and error.get("message"):
        return str(error["message"])
    return f"the process answered with HTTP status {status}"


async def cancel(task: "asyncio.Task[Any]") -> None:
    """End a task of ours and wait until it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
