"""The model's port: one verb. Every protocol and the tests' fake stand behind it."""

from collections.abc import Callable
from typing import Protocol

from messages.model import Delta, Failure, ModelRef, ModelReply, ModelRequest


class ModelCallError(Exception):
    """A model call failed; `failure` says how, `partial` what text had arrived."""

    def __init__(self, failure: Failure, partial: str = "") -> None:
        super().__init__(f"{failure.kind}: {failure.detail}")
        self.failure = failure
        self.partial = partial


class Models(Protocol):
    """All models that can be asked."""

    async def ask(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """Ask once, streaming: one HTTP request, no retry in it.

        Returns only an answer whose stream ended properly. Raises ModelCallError
        for everything that can go wrong with a provider. Cancelling the task
        closes the HTTP connection.
        """
        ...

    def choose(self, wanted: ModelRef | None) -> ModelRef:
        """Say which model answers: `wanted`, or the configured or discovered one.

        Raises ModelCallError(NO_MODEL) when there is none, with the remedy.
        """
        ...

    def resolve(self, text: str) -> ModelRef:
        """Read what a person typed (`provider/model`, or a model of the current provider).

        Raises ValueError that names what is known.
        """
        ...

    def context_window(self, model: ModelRef) -> int:
        """Return the tokens that request and answer may have together."""
        ...

    def known(self) -> tuple[ModelRef, ...]:
        """Return the models that can be named without asking a server."""
        ...
