"""All models: which one answers, by which provider, and the port behind which they stand.

Which one, when nothing is said: the configured provider, else the first key in the
environment, else a server on this machine, else the small embedded model, else none,
and then the person is told how to connect one.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from actors.clock import Clock
from actors.session.models import discovery
from actors.session.models.endpoints import (
    LOCAL,
    LOCAL_WINDOW,
    Endpoint,
    endpoints,
    window_of,
)
from actors.session.models.local import LOCAL_REF, MISSING, LocalModel, installed
from actors.session.models.port import ModelCallError
from actors.session.models.provider import Provider
from actors.session.models.remedies import CONNECT
from messages.model import Delta, Failure, FailureKind, ModelRef, ModelReply, ModelRequest
from messages.settings import Settings

log = structlog.get_logger(__name__)

LOCAL_OUTPUT_TOKENS = 512
"""A tiny model does not stop by itself reliably."""
LISTING_TIMEOUT_S = 5.0


class ModelDirectory:
    """Implements `port.Models` over real providers. `discover()` once before use, `close()` at the end."""

    def __init__(
        self,
        settings: Settings,
        env: Mapping[str, str],
        clock: Clock,
        home: Path,
        on_status: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._endpoints = endpoints(settings, env)
        self._listed: dict[str, tuple[str, ...]] = {}
        self._providers: dict[str, Provider] = {}
        self._local = LocalModel(env, clock, home, on_status)
        self._embedded = installed()

    # ------------------------------------------------------------- the port

    async def ask(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """See `port.Models.ask`. Calls above a provider's limit wait; places are shared fairly between chats."""
        if request.model.provider == LOCAL:
            tokens = min(request.max_output_tokens, LOCAL_OUTPUT_TOKENS)
            request = request.model_copy(update={"tools": (), "max_output_tokens": tokens})
        provider = await self._provider(request.model)
        return await provider.ask(request, on_delta)

    def choose(self, wanted: ModelRef | None) -> ModelRef:
        """See `port.Models.choose`."""
        if wanted is not None:
            self._need(wanted)
            return wanted
        name = self._settings.model.name
        provider = self._settings.model.provider
        if provider != "auto":
            return self._of(provider, name)
        if name is not None and "/" in name:
            first, _, rest = name.partition("/")
            if first in self._endpoints and rest:
                return ModelRef(provider=first, name=rest)
        for endpoint in self._endpoints.values():
            if name is not None or self._default(endpoint) is not None:
                return self._of(endpoint.name, name)
        if name is not None and name != LOCAL_REF.name:
            raise _no_model(
                f"`model.name` is {name!r}, but no provider is known that has it",
                f"Nothing is known that has the model {name!r}. {CONNECT}",
            )
        if self._embedded:
            return LOCAL_REF
        raise _no_model("no model is configured or found", CONNECT)

    def resolve(self, text: str) -> ModelRef:
        """See `port.Models.resolve`."""
        typed = text.strip()
        first, slash, rest = typed.partition("/")
        if slash and rest and first in self._endpoints:
            return ModelRef(provider=first, name=rest)
        for model in self.known():
            if typed in (model.name, f"{model.provider}/{model.name}"):
                return model
        if typed in self._endpoints and (default := self._default(self._endpoints[typed])):
            return ModelRef(provider=typed, name=default)
        if typed == LOCAL and self._embedded:
            return LOCAL_REF
        if typed and len(typed.split()) == 1 and len(typed) <= 200 and self._takes(typed):
            return ModelRef(provider=self.choose(None).provider, name=typed)
        names = ", ".join(f"{model.provider}/{model.name}" for model in self.known())
        raise ValueError(f"There is no model {typed!r}. Known are: {names}." if names else CONNECT)

    def context_window(self, model: ModelRef) -> int:
        """See `port.Models.context_window`."""
        if model.provider == LOCAL:
            return LOCAL_WINDOW
        endpoint = self._endpoints.get(model.provider)
        if endpoint is not None and endpoint.limits.context_window is not None:
            return endpoint.limits.context_window
        return window_of(model.name)

    def known(self) -> tuple[ModelRef, ...]:
        """See `port.Models.known`."""
        found: dict[ModelRef, None] = {}
        with contextlib.suppress(ModelCallError):  # there is none; the others may still be named
            found[self.choose(None)] = None
        for model in self.fallbacks():
            found[model] = None
        for endpoint in self._endpoints.values():
            names = self._listed.get(endpoint.name) or (endpoint.default_model,)
            found.update((ModelRef(provider=endpoint.name, name=name), None) for name in names if name)
        if self._embedded:
            found[LOCAL_REF] = None
        return tuple(found)

    # ------------------------------------------------------------- and more

    def fallbacks(self) -> tuple[ModelRef, ...]:
        """Return the models that may answer when the first cannot: the chain of `failover.next_step`."""
        chain: list[ModelRef] = []
        for text in self._settings.model.fallbacks:
            provider, slash, name = text.partition("/")
            if slash and name and (provider in self._endpoints or provider == LOCAL):
                chain.append(ModelRef(provider=provider, name=name))
            else:
                log.warning("A fallback names no provider that is known; it is left out.", fallback=text)
        return tuple(chain)

    async def discover(self, servers: tuple[discovery.Server, ...] = discovery.SERVERS) -> None:
        """Find servers on this machine, when nothing else is configured or one of them is asked for by name."""
        wanted = self._settings.model.provider
        names = {server.name for server in servers}
        if (wanted == "auto" and not self._endpoints) or (wanted in names and wanted not in self._endpoints):
            for found in await discovery.discover(servers):
                self._endpoints[found.endpoint.name] = found.endpoint
                self._listed[found.endpoint.name] = found.models
                log.info(
                    "Found a model server on this machine.", server=found.endpoint.name, models=found.models
                )
        await self._list_where_needed()

    async def warm(self) -> None:
        """Load the embedded model now, if it is the one that answers. Raises ModelCallError as `ask` does."""
        if self.choose(None).provider == LOCAL:
            await self._local.endpoint()

    @property
    def local_pid(self) -> int | None:
        """The process of the embedded model, None when it does not run."""
        return self._local.pid

    async def close(self) -> None:
        """Close all connections and end the embedded model's process."""
        providers, self._providers = list(self._providers.values()), {}
        for provider in providers:
            await provider.close()
        await self._local.close()

    # --------------------------------------------------------------- inside

    def _of(self, provider: str, name: str | None) -> ModelRef:
        if provider == LOCAL:
            return LOCAL_REF
        endpoint = self._endpoints.get(provider)
        if endpoint is None:
            raise self._unknown(provider)
        chosen = name or self._default(endpoint)
        if chosen is None:
            raise _no_model(
                f"`model.name` is not set and {provider} does not say which models it has",
                f"Set `model.name` in callboard.yaml to a model of {provider} ({endpoint.address}).",
            )
        return ModelRef(provider=provider, name=chosen)

    def _default(self, endpoint: Endpoint) -> str | None:
        listed = self._listed.get(endpoint.name, ())
        return endpoint.default_model or (listed[0] if listed else None)

    def _takes(self, name: str) -> bool:
        """Say whether the current provider may have a model that we have not heard of."""
        try:
            current = self.choose(None)
        except ModelCallError:
            return False
        endpoint = self._endpoints.get(current.provider)
        return endpoint is not None and ("/" not in name or endpoint.base_url is not None)

    def _need(self, model: ModelRef) -> None:
        if model.provider == LOCAL and not self._embedded:
            raise _no_model("the embedded model is not installed", MISSING, model)
        if model.provider != LOCAL and model.provider not in self._endpoints:
            raise self._unknown(model.provider, model)

    def _unknown(self, provider: str, model: ModelRef | None = None) -> ModelCallError:
        names = ", ".join((*self._endpoints, *((LOCAL,) if self._embedded else ()))) or "none"
        detail = f"no provider is called {provider!r}; known are: {names}"
        remedy = (
            f"There is no provider {provider!r} (known are: {names}). Add it to `providers` in callboard.yaml, "
            "set its key in the environment, or start its server."
        )
        return _no_model(detail, remedy, model)

    async def _provider(self, model: ModelRef) -> Provider:
        self._need(model)
        endpoint = (
            await self._local.endpoint() if model.provider == LOCAL else self._endpoints[model.provider]
        )
        provider = self._providers.get(model.provider)
        if provider is None or provider.endpoint != endpoint:
            # A new process of the embedded model listens elsewhere.
            self._providers[model.provider], old = Provider(endpoint, self._clock), provider
            if old is not None:
                await old.close()
        return self._providers[model.provider]

    async def _list_where_needed(self) -> None:
        """Ask the chosen provider for its models when no name is set and none is known."""
        model = self._settings.model
        chosen = next(iter(self._endpoints), None) if model.provider == "auto" else model.provider
        endpoint = self._endpoints.get(chosen or "")
        if endpoint is None or model.name is not None or self._default(endpoint) is not None:
            return
        provider = self._providers.setdefault(endpoint.name, Provider(endpoint, self._clock))
        try:
            async with asyncio.timeout(LISTING_TIMEOUT_S):
                names = await provider.models()
        except (ModelCallError, TimeoutError) as error:
            log.warning("A provider does not list its models.", provider=endpoint.name, error=str(error))
            return
        self._listed[endpoint.name] = discovery.chat_models(names)


def _no_model(detail: str, remedy: str, model: ModelRef | None = None) -> ModelCallError:
    return ModelCallError(
        Failure(
            kind=FailureKind.NO_MODEL,
            detail=detail,
            remedy=remedy,
            model=model or ModelRef(provider="none", name="none"),
        )
    )
