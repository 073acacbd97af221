"""The control socket: a file in the data folder that only processes of the same user can open."""

import contextlib
import hashlib
import os
import socket
import stat
import struct
import tempfile
from pathlib import Path
from typing import Any

from actors.errors import StartError

LONGEST_PATH = 100
"""In bytes. The kernel takes about 107."""

_BACKLOG = 512


class ServerStartError(StartError):
    """The server cannot take its address: what is in the way, and how to change it."""


def bind_control_socket(home: Path) -> tuple[Path, socket.socket]:
    """Make the socket, listening, with mode 0600; return its path and itself.

    One that a dead process left behind is replaced. Raises ServerStartError
    when a live one is there, or none can be made.
    """
    path = home / "control.sock"
    try:
        if len(os.fsencode(path)) > LONGEST_PATH:
            path = _private_folder() / f"{hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:24]}.sock"
        _clear(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)  # so that there is no moment in which others could connect
        try:
            listener.bind(os.fspath(path))
        except OSError:
            listener.close()
            raise
        finally:
            os.umask(before)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        raise ServerStartError(
            f"the control socket {path} cannot be made ({(error.strerror or str(error)).lower()}).",
            "Check the folder's owner, its permissions and the free space.",
        ) from None
    return path, listener


def _clear(path: Path) -> None:
    """Remove a dead socket. Raises ServerStartError for a live one, or for any other file."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ServerStartError(f"{path} is in the way: it is not a socket.", "Move it elsewhere.")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except (TimeoutError, BlockingIOError):
            pass  # somebody listens, and is busy
        pid = peer(probe)[0]
    holder = f" (process {pid})" if pid else ""
    raise ServerStartError(
        f"another Callboard{holder} serves this data folder: its control socket {path} answers.",
        "Stop it first, or give this one another folder with CALLBOARD_HOME or --home.",
    )


def _private_folder() -> Path:
    """Return a folder that is ours alone, in a place whose path is short."""
    uid = os.geteuid()
    runtime = Path(f"/run/user/{uid}")
    base = runtime if runtime.is_dir() and os.access(runtime, os.W_OK) else Path(tempfile.gettempdir())
    folder = base / f"callboard-{uid}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid or stat.S_IMODE(found.st_mode) & 0o077:
        raise ServerStartError(
            f"{folder} is not a private folder of this user.",
            "Remove it, or give the data folder a shorter path (CALLBOARD_HOME).",
        )
    return folder


def peer(connection: Any) -> tuple[int, int | None]:
    """Return the pid and the uid of the other end; 0 and None where the system does not say."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return 0, None
    try:
        pid, uid, _ = struct.unpack(
            "3i", connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i"))
        )
    except OSError:
        return 0, None
    return int(pid), int(uid)


def is_same_user(connection: Any) -> bool:
    """Return whether the other end belongs to us or to root, or the system does not say (the mode guards then)."""
    uid = peer(connection)[1]
    return uid in {None, 0, os.geteuid()}
