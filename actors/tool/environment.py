"""Which of our environment variables a command may see, and how the rest is hidden.

Only names on the list pass: a list of what to leave out always misses one.
"""

import ctypes
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

ALLOWED = frozenset({"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TERM", "USER", "LOGNAME", "SHELL", "TMPDIR"})
NEVER = frozenset({"LD_PRELOAD", "LD_AUDIT"})
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PR_SET_DUMPABLE = 4
_ENV_START, _ENV_END = 47, 48
"""Places in /proc/self/stat after the command's name (fields 50 and 51 of proc(5))."""


def allowed_environment(environ: Mapping[str, str], granted: Iterable[str] = ()) -> dict[str, str]:
    """Return what a command may see: the list, LC_*, and the names granted by the operator.

    LD_PRELOAD and LD_AUDIT never pass, also not when granted.
    """
    names = (ALLOWED | set(granted)) - NEVER
    seen = {name: value for name, value in environ.items() if name in names or name.startswith("LC_")}
    seen.setdefault("PATH", DEFAULT_PATH)
    return seen


def own_environment() -> Mapping[str, str]:
    """Return this process's environment, for `allowed_environment` alone to choose from."""
    return os.environ  # noqa: TID251 what passes is chosen by name, at once


def hide_own_environment(drop: Iterable[str] = ()) -> bool:
    """Make this process's environment unreadable from outside; say whether that worked.

    Call it once, after the settings are read, before threads exist. `drop` names
    variables to forget altogether: no child inherits them. Then, on Linux, the memory
    that /proc/PID/environ shows is blanked (also root reads nothing), and the
    process is made undumpable (others of the same user cannot read its memory).
    """
    for name in drop:
        os.environ.pop(name, None)  # noqa: TID251 forgetting, not reading
    if not sys.platform.startswith("linux"):
        return False
    try:
        start, end = _initial_block()
        for name, value in list(os.environ.items()):  # noqa: TID251
            os.environ[name] = value  # noqa: TID251 the C library now points at a copy of its own
        ctypes.memset(start, 0, end - start)
        libc = ctypes.CDLL(None, use_errno=True)
        hidden = bool(libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
    except (OSError, ValueError, IndexError) as error:
        log.warning("the environment could not be hidden", error=str(error))
        return False
    return hidden


def _initial_block() -> tuple[int, int]:
    fields = Path("/proc/self/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    if not 0 < start <= end:
        raise ValueError("the kernel does not say where the environment is")
    return start, end
