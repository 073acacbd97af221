"""One provider: its SDK client, its limit of calls at once, its breaker.

The SDKs build and sign the request, own the connections and give the error classes.
The stream's bytes are read by `sse` and the accumulators: the SDKs' own chunk objects
cost twice as much as all the rest of a call (docs/models.md has the figures).
"""

import asyncio
import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from actors.clock import Clock
from actors.session.models import anthropic_messages, openai_chat
from actors.session.models import breaker as circuit
from actors.session.models.discovery import listed
from actors.session.models.endpoints import LOCAL, Endpoint
from actors.session.models.failures import classify, classify_connection, redact
from actors.session.models.fair import FairPlaces
from actors.session.models.gathering import Accumulator
from actors.session.models.images import NO_PICTURES, paths_of, read_pictures
from actors.session.models.port import ModelCallError
from actors.session.models.remedies import remedy_for
from actors.session.models.sse import EventDecoder
from actors.session.models.validate import InvalidRequestError
from actors.session.models.watch import SilenceError, Watch
from actors.session.models.where import Where
from messages.model import Delta, Failure, FailureKind, ModelRef, ModelReply, ModelRequest

log = structlog.get_logger(__name__)

MOST_CONNECTIONS = 100_000
"""Not a limit in truth: the transport reads None as its own default of 100."""
CONNECT_TIMEOUT_S = 15.0
MOST_STREAM_BYTES = 64_000_000
DRAIN_S = 0.1
"""How long after the stream's end marker the connection's end is awaited, so that it can be used again."""


@dataclass(frozen=True, slots=True)
class _Sdk:
    """What is needed of an SDK, once it is loaded."""

    client: Any
    stream_class: Any
    status_error: type[Exception]
    connection_errors: tuple[type[Exception], ...]


def _load(endpoint: Endpoint) -> _Sdk:
    """Import the SDK and build its client: half a second, so in a thread."""
    anthropic = endpoint.protocol == "anthropic-messages"
    sdk = importlib.import_module("anthropic" if anthropic else "openai")
    http = importlib.import_module("httpx2")
    aiohttp = importlib.import_module("aiohttp")
    transport = sdk.DefaultAioHttpClient(
        limits=http.Limits(
            max_connections=MOST_CONNECTIONS,
            max_keepalive_connections=MOST_CONNECTIONS,
            keepalive_expiry=30.0,
        ),
        timeout=http.Timeout(None, connect=CONNECT_TIMEOUT_S),
        trust_env=not endpoint.on_this_machine,
    )
    base_url = endpoint.base_url
    if anthropic and base_url is not None:
        base_url = base_url.removesuffix("/v1")  # this SDK adds it itself
    build = sdk.AsyncAnthropic if anthropic else sdk.AsyncOpenAI
    client = build(
        api_key=endpoint.key or "no-key",
        base_url=base_url,
        max_retries=0,
        timeout=http.Timeout(None, connect=CONNECT_TIMEOUT_S),
        http_client=transport,
    )
    return _Sdk(
        client=client,
        stream_class=sdk.AsyncStream[object],
        status_error=sdk.APIStatusError,
        connection_errors=(
            sdk.APIConnectionError,
            http.HTTPError,
            http.StreamError,
            http.InvalidURL,
            aiohttp.ClientError,
            TimeoutError,
        ),
    )


class Provider:
    """Calls one provider. Made at once, loaded at the first call, closed once."""

    def __init__(self, endpoint: Endpoint, clock: Clock) -> None:
        self.endpoint = endpoint
        self._clock = clock
        self._sdk: _Sdk | None = None
        self._loading = asyncio.Lock()
        self._places = FairPlaces(endpoint.limits.max_concurrent)
        self._breaker = circuit.Breaker()
        # llama.cpp promises to keep a connection and closes it after each stream: who takes it
        # from the pool a moment too early is cut off. Here a new one costs next to nothing.
        self._options = {"headers": {"Connection": "close"}} if endpoint.on_this_machine else {}

    async def ask(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """Ask once. See `port.Models.ask`."""
        async with self._places.taken(request.share):
            where = self.endpoint.where(request.model)
            self._admit(where)
            settled = False
            try:
                reply = await self._call(request, where, on_delta)
                self._breaker = circuit.succeeded(self._breaker)
                settled = True
            except ModelCallError as error:
                self._failed(error.failure.kind)
                settled = True
                raise
            finally:
                if not settled:  # cancelled, or a fault of whoever listens: it says nothing of the provider
                    self._breaker = circuit.withdrawn(self._breaker)
            return reply

    async def models(self) -> tuple[str, ...]:
        """Return the names of the models that the provider lists. Raises ModelCallError."""
        where = self.endpoint.where(ModelRef(provider=self.endpoint.name, name=""))
        sdk = await self._loaded()
        path = "/v1/models" if self.endpoint.protocol == "anthropic-messages" else "/models"
        try:
            body: object = await sdk.client.get(path, cast_to=object)
        except sdk.status_error as error:
            raise ModelCallError(self._refused(error, where)) from error
        except sdk.connection_errors as error:
            raise ModelCallError(classify_connection(error, where)) from error
        return listed(body)

    async def close(self) -> None:
        """Close the connections. The provider is not usable after this."""
        if self._sdk is not None:
            sdk, self._sdk = self._sdk, None
            await sdk.client.close()

    def _admit(self, where: Where) -> None:
        now = self._clock.monotonic()
        wait = circuit.wait_of(self._breaker, now)
        if wait > 0:
            detail = f"not asked: {self._breaker.failures} calls in a row failed; asked again in {wait:.0f} s"
            failure = Failure(
                kind=FailureKind.OVERLOADED, detail=detail, retry_after_s=wait, sent=False, model=where.model
            )
            raise ModelCallError(failure)
        self._breaker = circuit.began(self._breaker, now)

    def _failed(self, kind: FailureKind) -> None:
        before = self._breaker.open_until
        self._breaker = circuit.failed(self._breaker, kind, self._clock.monotonic())
        if self._breaker.open_until not in (None, before):
            log.warning(
                "A model's provider is down.",
                provider=self.endpoint.name,
                asked_again_in_s=self._breaker.open_for,
            )

    def _refused(self, error: Exception, where: Where) -> Failure:
        response: Any = error.response  # type: ignore[attr-defined]
        return classify(response.status_code, response.text, response.headers, where, self._clock.now())

    def _answers(self) -> None:
        """A first piece came: a probe need not be waited for to its end."""
        if self._breaker.open_until is not None:
            self._breaker = circuit.succeeded(self._breaker)

    async def _loaded(self) -> _Sdk:
        if self._sdk is None:
            async with self._loading:
                if self._sdk is None:
                    self._sdk = await asyncio.to_thread(_load, self.endpoint)
        return self._sdk

    async def _body(self, request: ModelRequest, where: Where) -> dict[str, Any]:
        paths = () if self.endpoint.name == LOCAL else paths_of(request.entries)
        pictures = await asyncio.to_thread(read_pictures, paths) if paths else NO_PICTURES
        translate = (
            anthropic_messages.to_wire
            if self.endpoint.protocol == "anthropic-messages"
            else openai_chat.to_wire
        )
        try:
            return translate(request, pictures, self.endpoint.base_url)
        except InvalidRequestError as error:
            log.exception("We made a request that no provider would take.", model=where.model.name)
            detail = redact(f"a mistake of ours in the request: {error}", where.secrets)
            raise ModelCallError(
                Failure(kind=FailureKind.INVALID_REQUEST, detail=detail, model=where.model)
            ) from error

    def _accumulator(self, request: ModelRequest, where: Where) -> Accumulator:
        now = self._clock.now()
        if self.endpoint.protocol == "anthropic-messages":
            return anthropic_messages.MessagesAccumulator(request, where, now)
        return openai_chat.ChatAccumulator(request, where, now)

    async def _call(
        self, request: ModelRequest, where: Where, on_delta: Callable[[Delta], None]
    ) -> ModelReply:
        key = self.endpoint.key or ""
        if not (key.isascii() and key.isprintable()):
            # It would go into a header, which takes plain characters only.
            raise ModelCallError(_odd_key(where))
        body = await self._body(request, where)
        sdk = await self._loaded()
        accumulator = self._accumulator(request, where)
        limits = self.endpoint.limits
        watch = Watch(self._clock, limits.first_byte_timeout_s, limits.silence_timeout_s)
        reading = _Reading(accumulator, watch, self._clock, on_delta, self._answers)
        path = anthropic_messages.PATH if self.endpoint.protocol == "anthropic-messages" else openai_chat.PATH
        try:
            async with watch:
                stream = await sdk.client.post(
                    path,
                    body=body,
                    options=self._options,
                    cast_to=object,
                    stream=True,
                    stream_cls=sdk.stream_class,
                )
                try:
                    await reading.read(stream.response, where)
                finally:
                    await stream.close()
        except SilenceError as error:
            if not accumulator.done:
                failure = Failure(kind=FailureKind.STALE, detail=str(error), model=where.model)
                raise ModelCallError(failure, accumulator.partial) from error
        except sdk.status_error as error:
            raise ModelCallError(self._refused(error, where)) from error
        except sdk.connection_errors as error:
            if not accumulator.done:
                raise ModelCallError(classify_connection(error, where), accumulator.partial) from error
        reply = accumulator.finish()
        return reply.model_copy(update={"first_token_ms": reading.first_token_ms})


def _odd_key(where: Where) -> Failure:
    return Failure(
        kind=FailureKind.AUTH,
        detail="the key holds characters that no key has",
        remedy=remedy_for(FailureKind.AUTH, where, None, ""),
        model=where.model,
    )


class _Reading:
    """Reads one response into an accumulator, and tells what comes."""

    def __init__(
        self,
        accumulator: Accumulator,
        watch: Watch,
        clock: Clock,
        on_delta: Callable[[Delta], None],
        on_first: Callable[[], None],
    ) -> None:
        self.first_token_ms: float | None = None
        self._accumulator = accumulator
        self._watch = watch
        self._clock = clock
        self._on_delta = on_delta
        self._on_first = on_first
        self._began = clock.monotonic()

    async def read(self, response: Any, where: Where) -> None:
        kind = response.headers.get("content-type", "")
        if "text/html" in kind:
            await self._not_an_api(response, where)
        elif "application/json" in kind:
            await self._read_whole(response, where)
        else:
            await self._read_stream(response, where)

    async def _read_stream(self, response: Any, where: Where) -> None:
        accumulator, decoder, size = self._accumulator, EventDecoder(), 0
        async for chunk in response.aiter_bytes():
            if accumulator.done:
                continue
            size += len(chunk)
            if size > MOST_STREAM_BYTES:
                raise ModelCallError(_too_much(where), accumulator.partial)
            events = decoder.feed(chunk)
            pieces = False
            for event in events:
                self._tell(accumulator.feed(event))
                pieces = pieces or event.name != "ping"
            if accumulator.done:
                self._watch.closing(DRAIN_S)
            else:
                self._watch.heard(piece=pieces)
        if not accumulator.done:
            for event in decoder.finish():
                self._tell(accumulator.feed(event))

    async def _read_whole(self, response: Any, where: Where) -> None:
        """Read an answer that was not streamed, though we asked for it."""
        pieces: list[bytes] = []
        size = 0
        async for chunk in response.aiter_bytes():
            size += len(chunk)
            if size > MOST_STREAM_BYTES:
                raise ModelCallError(_too_much(where))
            pieces.append(chunk)
            self._watch.heard(piece=True)
        content = b"".join(pieces)
        if content.lstrip().startswith((b"data:", b"event:", b":")):  # a stream under a wrong name
            decoder = EventDecoder()
            for event in decoder.feed(content) + decoder.finish():
                self._tell(self._accumulator.feed(event))
            return
        try:
            body: object = json.loads(content)
        except (ValueError, RecursionError):
            body = content.decode("utf-8", "replace")
        self._tell(self._accumulator.whole(body))

    async def _not_an_api(self, response: Any, where: Where) -> None:
        text = (await response.aread()).decode("utf-8", "replace")
        raise ModelCallError(
            Failure(
                kind=FailureKind.NOT_FOUND,
                detail=redact(text, where.secrets),
                remedy=remedy_for(FailureKind.NOT_FOUND, where, None, ""),
                status=response.status_code,
                model=where.model,
            )
        )

    def _tell(self, deltas: Sequence[Delta]) -> None:
        if not deltas:
            return
        if self.first_token_ms is None:
            self.first_token_ms = round((self._clock.monotonic() - self._began) * 1000, 1)
            self._on_first()
        for delta in deltas:
            self._on_delta(delta)


def _too_much(where: Where) -> Failure:
    detail = f"the answer is longer than {MOST_STREAM_BYTES:,} bytes"
    return Failure(kind=FailureKind.INVALID_REQUEST, detail=detail, model=where.model)
