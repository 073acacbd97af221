"""A platform of one's own: a message is a file that a program drops into a folder, and the answer is a file too.

    FOLDER/in/CHAT/anything.txt        what is said; write it elsewhere in FOLDER and move it here
    FOLDER/out/CHAT/KEY.md             what is answered

To offer it, a package names this module under the entry point group `callboard.platforms`:

    [project.entry-points."callboard.platforms"]
    file_drop = "file_drop"
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from actors.gateway.edge import EdgeContext, EdgeError, Hear
from actors.gateway.registry import Capabilities, Finding, Limits, PlatformEntry, Question
from messages.delivery import EdgeView, Post, ProblemKind
from messages.gateway import Acceptance, Author, ChatType, MessageReceived, Origin
from messages.ids import MessageId


class FileDropOptions(BaseModel):
    """What may stand in `platforms.file_drop.options`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    folder: Path
    every_s: float = 1.0


class FileDropEdge:
    """Implements `actors.gateway.edge.Edge`."""

    def __init__(self, options: FileDropOptions, context: EdgeContext) -> None:
        self._options, self._context = options, context

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        waiting(self._options.folder)
        connected()
        while True:
            for file in waiting(self._options.folder):
                receipt = await hear(self._message(file))
                # Only now it is durable: a file that was not taken is there again after a crash.
                settle(file, refused=receipt.acceptance is Acceptance.REFUSED)
            await self._context.clock.sleep(self._options.every_s)

    def _message(self, file: Path) -> MessageReceived:
        chat = file.parent.name
        return MessageReceived(
            message_id=MessageId(f"{file.stem}-{file.stat().st_mtime_ns}"),
            origin=Origin(
                platform=self._context.platform,
                account=self._context.account,
                chat_type=ChatType.DM,
                chat=chat,
            ),
            author=Author(id=chat),
            text=file.read_text("utf-8", "replace"),
            at=self._context.clock.now(),
        )

    async def say(self, post: Post) -> str:
        try:
            return write(self._options.folder, post)
        except OSError as error:
            raise EdgeError(
                ProblemKind.TRANSIENT, f"the answer cannot be written: {error.strerror}"
            ) from error

    async def find(self, post: Post) -> str | None:
        """Never asked: writing a key twice writes the same file (`idempotency_key` below)."""

    async def show(self, view: EdgeView) -> str | None:
        """Files show nothing that passes."""

    async def probe(self) -> None:
        """The folder is looked at all the time."""


def waiting(folder: Path) -> list[Path]:
    """Return what waits to be read, the oldest first. Raises EdgeError when there is no such folder."""
    try:
        (folder / "in").mkdir(parents=True, exist_ok=True)
        return sorted((folder / "in").glob("*/[!.]*.txt"), key=lambda file: file.stat().st_mtime_ns)
    except OSError as error:
        raise EdgeError(ProblemKind.NEEDS_HUMAN, f"{folder} cannot be used: {error.strerror}") from error


def settle(file: Path, *, refused: bool) -> None:
    """Take a message away; one that was refused is renamed, so that its writer sees it."""
    file.rename(file.with_suffix(".refused")) if refused else file.unlink(missing_ok=True)


def write(folder: Path, post: Post) -> str:
    """Write a post whole or not at all, and return its name."""
    chat = post.place.chat or ""
    if Path(chat).name != chat:
        raise EdgeError(ProblemKind.REFUSED, "a chat is the name of a folder")
    place = folder / "out" / chat
    place.mkdir(parents=True, exist_ok=True)
    if post.body.file is not None:
        shutil.copyfile(post.body.file.path, place / f"{post.key}{Path(post.body.file.path).suffix}")
    new = place / f".{post.key}.new"
    new.write_text(post.body.text, "utf-8")
    new.rename(place / f"{post.key}.md")
    return f"{post.key}.md"


async def standalone(options: FileDropOptions, post: Post) -> str:
    """Write without a connection: there is none."""
    return write(options.folder, post)


async def examine(options: FileDropOptions, _: EdgeContext) -> tuple[Finding, ...]:
    """Look whether the folder can be used."""
    try:
        count = len(waiting(options.folder))
    except EdgeError as error:
        return (Finding(ok=False, what=error.problem.detail, remedy="Let this user write there."),)
    return (Finding(ok=True, what=f"{options.folder} can be used; {count} message(s) wait"),)


PLATFORM = PlatformEntry(
    name="file_drop",
    title="Files in a folder",
    factory=FileDropEdge,
    config=FileDropOptions,
    limits=Limits(100_000, files=True),
    capabilities=Capabilities(idempotency_key=True, splits_itself=True),
    checks_speakers=True,  # whoever can write into the folder may talk to us
    questions=(Question("folder", "Folder for the files"),),
    standalone=standalone,
    examine=examine,
)
