"""What every command is given: where the data is, what the environment says, and how a house is made."""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from actors.errors import StartError

if TYPE_CHECKING:
    from actors.clock import Clock
    from actors.redaction import Redactor
    from actors.settings_file import LoadedSettings
    from messages.gateway import StatusReport
    from messages.settings import Settings


class ExitCode(IntEnum):
    """What a command's end means. Documented in docs/configuration.md."""

    OK = 0
    FAILED = 1
    """The turn failed, or a check did."""
    USAGE = 2
    """The command line or the settings are wrong."""
    NOT_RUNNING = 3
    """The command needs a running process, and there is none."""
    CANNOT_START = 4
    """The data folder, the database or the port cannot be used."""
    INTERRUPTED = 130


class CommandFailedError(Exception):
    """A mistake of the program ended a command; its traceback is in the log."""

    def __init__(self, what: str, log_file: Path | None) -> None:
        super().__init__(what)
        self.what = what
        self.remedy = f"The traceback is in {log_file}." if log_file else ""


class House(Protocol):
    """A running Callboard, as the command line sees it."""

    @property
    def url(self) -> str: ...

    @property
    def socket(self) -> Path: ...

    async def start(self) -> None:
        """Raises StartError."""
        ...

    def login_url(self) -> str: ...

    def status(self) -> "StatusReport": ...

    async def stop(self) -> None: ...


class NewHouse(Protocol):
    """Makes a house that is not started yet."""

    def __call__(  # the house's own constructor
        self,
        settings: "Settings",
        *,
        home: Path,
        env: Mapping[str, str],
        clock: "Clock",
        redactor: "Redactor",
        version: str,
        serve_tcp: bool = True,
    ) -> House: ...


def real_house(settings: "Settings", **given: Any) -> House:
    """Make the real house; imported only now, because it brings everything with it."""
    from actors.house import House as RealHouse  # noqa: PLC0415

    house: House = RealHouse(settings, **given)
    return house


@dataclass(frozen=True)
class Invocation:
    """One run of the command line."""

    home: Path
    env: Mapping[str, str]
    version: str
    config: Path | None = None
    """Named by the operator; else `callboard.yaml` in the home."""
    forget: Callable[[Iterable[str]], None] = lambda _: None
    """Takes variables out of the process's own environment, once they were read."""
    new_house: NewHouse = real_house
    stdin: TextIO = field(default_factory=lambda: sys.stdin)
    stdout: TextIO = field(default_factory=lambda: sys.stdout)
    stderr: TextIO = field(default_factory=lambda: sys.stderr)

    @property
    def settings_path(self) -> Path:
        return self.config or self.home / "callboard.yaml"

    def read_settings(self) -> "LoadedSettings":
        """Raises SettingsError."""
        from actors.settings_file import read_settings  # noqa: PLC0415

        return read_settings(self.settings_path, self.env, must_exist=self.config is not None)

    def out(self, text: str = "") -> None:
        """Print a line of the result."""
        print(text, file=self.stdout, flush=True)

    def note(self, text: str) -> None:
        """Print a line beside the result: progress, a remark, an error."""
        print(text, file=self.stderr, flush=True)


def make_home(home: Path) -> None:
    """Make the data folder, for its owner alone. Raises StartError when it cannot be used."""
    remedy = "Name another one with --home or CALLBOARD_HOME."
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        next(home.iterdir(), None)
        probe = home / ".writable"
        probe.touch(mode=0o600)
        probe.unlink()
    except (FileExistsError, NotADirectoryError):
        raise StartError(f"The data folder {home} is not a folder.", remedy) from None
    except PermissionError:
        raise StartError(
            f"The data folder {home} may not be read and written by this user.",
            f"Change its owner (chown) or its mode (chmod u+rwx). {remedy}",
        ) from None
    except OSError as error:
        raise StartError(f"The data folder {home} cannot be used: {error.strerror}.", remedy) from None
