"""The folder that file tools may touch, and nothing else.

Containment is decided on real paths: a path is resolved first, symlinks and `..`
included, and the result must be the real root or lie below it. What was resolved
is then opened one component at a time without following links, so that a link put
in between the check and the opening leads nowhere.
"""

import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakValueDictionary

from actors.tool.names import read_name, show_name

OUTSIDE = "This path is outside the workspace. Give a path inside it, relative to its root, such as `notes/plan.md`."
_URL = re.compile(r"^(file:|[a-z][a-z0-9+.-]*:/)", re.IGNORECASE)
_KERNEL = ("/proc", "/sys", "/dev")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = 0o666
_NEW_DIRECTORY = 0o777


class OutsideWorkspaceError(Exception):
    """A path that no file tool may touch, whatever the reason. One message for all."""

    def __init__(self) -> None:
        super().__init__(OUTSIDE)


class _Lock:
    """A lock that can be weakly held."""

    def __init__(self) -> None:
        self.held = threading.Lock()


class Workspace:
    """The root folder of the file tools, and optionally a shelf that may only be read."""

    def __init__(self, root: Path, shelf: Path | None = None) -> None:
        self.root = Path(os.path.realpath(root))
        self._shelf = None if shelf is None else Path(os.path.realpath(shelf))
        self._locks: WeakValueDictionary[str, _Lock] = WeakValueDictionary()
        self._guard = threading.Lock()

    def with_shelf(self, shelf: Path) -> "Workspace":
        """Return the same workspace, locks included, whose kept results may be read."""
        copy = Workspace(self.root, shelf)
        copy._locks, copy._guard = self._locks, self._guard
        return copy

    def resolve(self, text: str) -> Path:
        """Return the real path of what a model wrote. Raises OutsideWorkspaceError."""
        return self._resolve(text, (self.root,))

    def resolve_for_reading(self, text: str) -> Path:
        """The same, where the shelf counts too."""
        roots = (self.root,) if self._shelf is None else (self.root, self._shelf)
        return self._resolve(text, roots)

    def show(self, path: Path) -> str:
        """Return a path as a model should write it: relative to the root, reversible."""
        if path == self.root:
            return "."
        if path.is_relative_to(self.root):
            return show_name(str(path.relative_to(self.root)))
        return show_name(str(path))

    def _resolve(self, text: str, roots: tuple[Path, ...]) -> Path:
        try:
            name = read_name(text)
        except UnicodeError:
            raise OutsideWorkspaceError from None
        if "\x00" in name or name.startswith("~") or _URL.match(name):
            raise OutsideWorkspaceError
        written = self.root / name
        if written.is_absolute() and _in_kernel_files(str(written)) and not _in_kernel_files(str(self.root)):
            raise OutsideWorkspaceError
        try:
            real = Path(os.path.realpath(written))
            real.as_posix().encode("utf-8", "surrogateescape")
        except (OSError, ValueError):
            raise OutsideWorkspaceError from None
        if not any(real == root or real.is_relative_to(root) for root in roots):
            raise OutsideWorkspaceError
        return real

    @contextmanager
    def changing(self, path: Path) -> Iterator[None]:
        """Hold the file's lock: changes of one real path come one after the other."""
        with self._guard:
            lock = self._locks.setdefault(str(path), _Lock())
        with lock.held:
            yield

    @contextmanager
    def directory(self, path: Path, *, make: bool = False) -> Iterator[int]:
        """Open a resolved directory and give its descriptor; with `make`, make what is missing.

        Raises OutsideWorkspaceError when a component became a link since it was resolved.
        """
        root = next((r for r in (self.root, self._shelf) if r is not None and path.is_relative_to(r)), None)
        if root is None:
            raise OutsideWorkspaceError
        fd = os.open(root, _DIRECTORY)
        try:
            for name in path.relative_to(root).parts:
                inner = _step(fd, name, make=make)
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)

    def open_for_reading(self, path: Path) -> int:
        """Open a resolved regular file and return its descriptor.

        Raises OSError, IsADirectoryError for a directory, and OutsideWorkspaceError for
        what is no regular file (a device or a pipe) or became a link.
        """
        if path == self.root:
            raise IsADirectoryError(str(path))
        with self.directory(path.parent) as parent:
            if stat.S_ISLNK(os.lstat(path.name, dir_fd=parent).st_mode):
                raise OutsideWorkspaceError
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(path.name, flags, dir_fd=parent)
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode):
            return fd
        os.close(fd)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(str(path))
        raise OutsideWorkspaceError

    def replace(self, path: Path, content: bytes) -> None:
        """Put a whole file in the place of what was there, in one step, keeping its mode.

        Parents are made. After a crash there is the old file or the new one, never a
        part. The caller holds the file's lock. Raises OSError.
        """
        if path == self.root:
            raise IsADirectoryError(str(path))
        with self.directory(path.parent, make=True) as parent:
            mode = _mode_of(path.name, parent)
            temporary = f".{os.urandom(8).hex()}.tmp"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(temporary, flags, _NEW_FILE, dir_fd=parent)
            try:
                _write_out(fd, content, mode)
                os.rename(temporary, path.name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                os.unlink(temporary, dir_fd=parent)
                raise
            os.fsync(parent)


def _in_kernel_files(path: str) -> bool:
    plain = os.path.normpath(path)
    return any(plain == name or plain.startswith(name + "/") for name in _KERNEL)


def _step(fd: int, name: str, *, make: bool) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=fd)
    except FileNotFoundError:
        if not make:
            raise
    except OSError:
        if _is_link(name, fd):
            raise OutsideWorkspaceError from None
        raise
    with suppress(FileExistsError):  # another call made it at the same moment
        os.mkdir(name, _NEW_DIRECTORY, dir_fd=fd)
    return os.open(name, _DIRECTORY, dir_fd=fd)


def _is_link(name: str, parent: int) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(name, dir_fd=parent).st_mode)
    except OSError:
        return False


def _mode_of(name: str, parent: int) -> int | None:
    """Return the permission bits of the file to replace; None when there is none."""
    try:
        found = os.lstat(name, dir_fd=parent)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(name)
    if not stat.S_ISREG(found.st_mode):
        raise OutsideWorkspaceError
    return stat.S_IMODE(found.st_mode)


def _write_out(fd: int, content: bytes, mode: int | None) -> None:
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
