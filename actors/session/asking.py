"""One model call of a session: from its history to a message to the session. The edge to `models`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actors.clock import Clock
from actors.redaction import Redactor
from actors.session import context, words
from actors.session.effects import AskModel
from actors.session.heartbeat import Heartbeat
from actors.session.live import LiveHub
from actors.session.models.port import ModelCallError, Models
from actors.session.profiles import Profiles
from actors.tool.catalogue import Catalogue
from messages.blocks import (
    AssistantBlock,
    AssistantEntry,
    Entry,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    UserEntry,
)
from messages.gateway import ModelStatusChanged
from messages.ids import CallId, SessionKey
from messages.model import Delta, ModelReply, ModelRequest, TextDelta
from messages.session import ModelAnswered, ModelFailed
from messages.tool import PreparedCall


def share_of(key: SessionKey) -> str:
    """Return the chat of a session, with all who talk in it: what has one share of a provider's places."""
    return ":".join(key.split(":")[2:6])


@dataclass(frozen=True, slots=True)
class Asker:
    """What every model call needs, for all sessions of a process."""

    models: Models
    profiles: Profiles
    hub: LiveHub
    redactor: Redactor
    clock: Clock
    chance: Callable[[], float]
    max_output_tokens: int

    async def ask(
        self, key: SessionKey, entries: Sequence[Entry], effect: AskModel, note: str = ""
    ) -> ModelAnswered | ModelFailed:
        """Ask once, and say what came of it. Cancelling closes the connection.

        `note` is added to the instructions: what the model must know of the place, and the personality that
        was chosen there.
        """
        shown = effect.compress is None  # a summary is no answer: nobody sees it being written
        began_at = self.clock.now()
        cleaner = self.redactor.stream()

        def still_silent(seconds: float) -> None:
            text = f"waiting for the model for {seconds:.0f} s"
            self.hub.told(key, ModelStatusChanged(turn=effect.turn, text=text))

        beat = Heartbeat(self.clock, still_silent)

        def on_delta(delta: Delta) -> None:
            beat.heard()
            if isinstance(delta, TextDelta):
                text = cleaner.feed(delta.text)
                if text and shown:
                    self.hub.drafted(key, effect.turn, effect.call, text)

        try:
            with beat, self.hub.waiting_for_model(key, beat):
                request = self._request(key, entries, effect, note)
                reply = await self.models.ask(request, on_delta)
        except ModelCallError as error:
            self.hub.draft_dropped(key, effect.turn, effect.call)
            failure = error.failure
            return ModelFailed(
                turn=effect.turn,
                call=effect.call,
                attempt=effect.attempt,
                failure=failure.model_copy(update={"detail": self.redactor.clean(failure.detail)}),
                partial=self.redactor.clean(error.partial),
                chance=self.chance(),
                began_at=began_at,
                at=self.clock.now(),
            )
        rest = cleaner.flush()
        if rest and shown:
            self.hub.drafted(key, effect.turn, effect.call, rest)
        reply, calls = self._take_up(self.profiles.catalogue_of(key), reply, entries)
        return ModelAnswered(
            turn=effect.turn,
            call=effect.call,
            reply=reply,
            calls=calls,
            began_at=began_at,
            at=self.clock.now(),
        )

    def _request(
        self, key: SessionKey, entries: Sequence[Entry], effect: AskModel, note: str
    ) -> ModelRequest:
        profile = self.profiles.of(key)
        if effect.compress is not None:
            entries = (*entries[: effect.compress], UserEntry(blocks=(TextBlock(text=words.COMPRESS),)))
        model = self.models.choose(effect.model or profile.model)
        request = context.build(
            entries,
            model=model,
            system=f"{profile.instructions}\n\n{note}".strip() if note else profile.instructions,
            tools=profile.catalogue.schemas(),
            window=self.models.context_window(model),
            max_output_tokens=self.max_output_tokens,
            shrinks=effect.shrinks,
        )
        choice = {} if effect.tools else {"tool_choice": "none"}
        return request.model_copy(update={"share": share_of(key), **choice})

    def _take_up(
        self, catalogue: Catalogue, reply: ModelReply, entries: Sequence[Entry]
    ) -> tuple[ModelReply, tuple[PreparedCall, ...]]:
        """Clean the texts, and look the calls up; a call keeps one id everywhere."""
        blocks = tuple(self._cleaned(block) for block in reply.blocks)
        wanted = [block for block in blocks if isinstance(block, ToolCallBlock)]
        calls = catalogue.prepare(wanted, _ids(entries)) if wanted else ()
        ids = iter(call.call_id for call in calls)
        blocks = tuple(
            block.model_copy(update={"call_id": next(ids)}) if isinstance(block, ToolCallBlock) else block
            for block in blocks
        )
        return reply.model_copy(update={"blocks": blocks}), calls

    def _cleaned(self, block: AssistantBlock) -> AssistantBlock:
        """Arguments stay as they are: what is executed must be what the model wrote."""
        if isinstance(block, TextBlock | ThinkingBlock):
            text = self.redactor.clean(block.text)
            if text != block.text:
                return block.model_copy(update={"text": text})
        return block


def _ids(entries: Sequence[Entry]) -> set[CallId]:
    return {
        block.call_id
        for entry in entries
        if isinstance(entry, AssistantEntry)
        for block in entry.blocks
        if isinstance(block, ToolCallBlock)
    }
