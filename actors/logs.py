"""Where log lines go: the terminal for people, JSON lines for machines, a file that is kept.

Everything passes the redactor last, also lines of libraries and tracebacks, and
tracebacks show no local variables. `structlog.contextvars.bound_contextvars(
session_key=…, turn=…)` puts a session and a turn on every line written below it.
"""

import logging
import logging.handlers
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from actors.redaction import MASK, Redactor
from messages.settings import LogSettings

FILE_BYTES: Final = 10_000_000
FILES_KEPT: Final = 5

_TALKATIVE = (
    "aiohttp",
    "anthropic",
    "asyncio",
    "httpcore",
    "httpx",
    "httpx2",
    "openai",
    "pykka",
    "telegram",
    "uvicorn",
    "uvicorn.error",
    "uvicorn.access",
)
"""Libraries whose information is our debugging."""

_SECRET_FIELDS = frozenset({"api_key", "apikey", "authorization", "cookie", "password", "secret", "token"})


class LogSetup:
    """The handlers that were put in place; `close` takes them away and closes the file."""

    def __init__(self, handlers: list[logging.Handler], file: Path | None) -> None:
        self._handlers = handlers
        self.file = file

    def close(self) -> None:
        root = logging.getLogger()
        for handler in self._handlers:
            root.removeHandler(handler)
            handler.close()
        self._handlers = []
        structlog.reset_defaults()


def set_up_logs(
    settings: LogSettings,
    redactor: Redactor,
    *,
    home: Path | None = None,
    stream: TextIO | None = None,
    quiet: bool = False,
) -> LogSetup:
    """Send structlog and the standard library's logging through one chain. Call once per process.

    With a home, JSON lines are kept in `<home>/logs/callboard.log` (five files of
    10 MB, readable by their owner alone). `stream` is standard error when not
    given; `quiet` leaves it out, for commands whose terminal belongs to a chat.
    Raises OSError when the file cannot be written.
    """
    out = sys.stderr if stream is None else stream
    handlers: list[logging.Handler] = []
    if not quiet:
        console = settings.format == "console" or (settings.format == "auto" and out.isatty())
        handler: logging.Handler = logging.StreamHandler(out)
        handler.setFormatter(_formatter(redactor, console=console, colors=console and out.isatty()))
        handlers.append(handler)
    file = home / "logs" / "callboard.log" if home is not None else None
    if file is not None:
        handlers.append(_file_handler(file, redactor))
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    root = logging.getLogger()
    root.setLevel(level)
    for handler in handlers:
        root.addHandler(handler)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(level if level == logging.DEBUG else max(level, logging.WARNING))
    structlog.configure(
        processors=[*_shared(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    return LogSetup(handlers, file)


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _formatter(redactor: Redactor, *, console: bool, colors: bool) -> logging.Formatter:
    renderer: Processor = (
        structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)
        if console
        else structlog.processors.JSONRenderer(default=str, ensure_ascii=False)
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_shared(),
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,  # a plain traceback: no local variables
            redacting(redactor),
            renderer,
        ],
    )


def _file_handler(file: Path, redactor: Redactor) -> logging.Handler:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.touch(mode=0o600, exist_ok=True)
    handler = _PrivateFile(
        file, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8", errors="backslashreplace"
    )
    handler.setFormatter(_formatter(redactor, console=False, colors=False))
    return handler


class _PrivateFile(logging.handlers.RotatingFileHandler):
    """A rotating file whose every generation only its owner can read."""

    def _open(self) -> Any:
        stream = super()._open()
        Path(self.baseFilename).chmod(0o600)
        return stream


def redacting(redactor: Redactor) -> Processor:
    """Return a structlog processor that masks secrets in every value of a line, however deep."""
    clean = _deep(redactor.clean)

    def process(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        return {
            redactor.clean(name): MASK if name.lower() in _SECRET_FIELDS else clean(value)
            for name, value in event.items()
        }

    return process


def _deep(clean: Callable[[str], str]) -> Callable[[object], object]:
    def cleaned(value: object) -> object:
        match value:
            case str():
                return clean(value)
            case None | bool() | int() | float():
                return value
            case dict():
                return {
                    clean(str(name)): MASK if str(name).lower() in _SECRET_FIELDS else cleaned(item)
                    for name, item in value.items()
                }
            case list() | tuple() | set() | frozenset():
                return [cleaned(item) for item in value]
            case _:
                return clean(str(value))

    return cleaned
