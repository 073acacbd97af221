"""The log of a process of our own goes to whoever raised it: one log, one redactor."""

import asyncio
import contextlib
import logging
from functools import partial
from typing import Any, Final

import structlog

from actors.cluster.port import Channel
from actors.cluster.words import LogSaid

LONGEST: Final = 4000
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def send_logs_to(channel: Channel) -> None:
    """Let structlog and the standard library's logging say what they say over the line. Call it on the loop."""
    sink = _Sink(channel, asyncio.get_running_loop())
    structlog.configure(
        processors=[structlog.processors.format_exc_info, sink.structured],
        logger_factory=structlog.ReturnLoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=False,
    )
    root = logging.RootLogger(logging.WARNING)
    root.addHandler(sink)
    # thespian has put a logger of its own here that sends every line through its queues.
    logging.root = root
    logging.Logger.root = root
    logging.Logger.manager = logging.Manager(root)


class _Sink(logging.Handler):
    def __init__(self, channel: Channel, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._channel = channel
        self._loop = loop

    def structured(self, _: object, method: str, fields: Any) -> str:
        """Send one of structlog's lines."""
        level = "error" if method in {"exception", "critical", "fatal"} else method
        event = str(fields.pop("event", ""))
        self._send(level, event, {str(name): str(value)[:LONGEST] for name, value in fields.items()})
        return ""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except (TypeError, ValueError) as error:  # its author's mistake is no reason to fall
            text = f"{record.msg} ({error})"
        level = next(
            name for name, least in reversed(_LEVELS.items()) if record.levelno >= least or least == 10
        )
        self._send(level, text, {"logger": record.name})

    def _send(self, level: str, event: str, fields: dict[str, str]) -> None:
        known = level if level in _LEVELS else "info"
        said = LogSaid.model_validate({"level": known, "event": event[:LONGEST], "fields": fields})
        frame = said.model_dump_json().encode()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody hears it any more
            self._loop.call_soon_threadsafe(partial(self._channel.tell_now, frame, droppable=True))
