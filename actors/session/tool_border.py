"""Where tools speak to sessions: what they say is masked here, before anything keeps or shows it."""

from collections.abc import Callable

from actors.redaction import Redactor
from actors.session.directory import Route
from actors.session.live import LiveHub
from messages.gateway import ToolProgressed
from messages.ids import SessionKey
from messages.tool import ToolFinished


class ToolBorder:
    """Passes results to the session's actor and progress to whoever watches."""

    def __init__(self, redactor: Redactor, hub: LiveHub, tell_sessions: Callable[[Route], None]) -> None:
        self._redactor = redactor
        self._hub = hub
        self._tell_sessions = tell_sessions

    def finished(self, key: SessionKey, finished: ToolFinished) -> None:
        """A call ended."""
        text = self._redactor.clean(finished.text)
        self._tell_sessions(Route(key, finished.model_copy(update={"text": text})))

    def progressed(self, key: SessionKey, progress: ToolProgressed) -> None:
        """A call began, has something to say, or ended."""
        text = self._redactor.clean(progress.text)
        self._hub.progressed(key, progress.model_copy(update={"text": text}))
