"""Posting: one part of a reply becomes one message, or as many as all of its text needs.

An edge never tries again by itself. The exceptions are calls that were refused for a
reason which says that nothing was posted: a text whose entities are not understood goes
out plain, a picture that is none goes out as a file.
"""

import io
from collections import OrderedDict
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import structlog
from telegram import InputFile

from actors.clock import Clock
from actors.gateway.chunks import Unit, measure, split
from actors.gateway.edge import EdgeError
from actors.gateway.platforms.telegram.api import Api, ApiError
from actors.gateway.platforms.telegram.errors import says
from actors.gateway.platforms.telegram.fetch import amount
from actors.gateway.platforms.telegram.media import file_name
from actors.gateway.platforms.telegram.options import CAPTION, LENGTH, PHOTO_BYTES, TelegramOptions
from actors.gateway.platforms.telegram.render import Rendered, render, shown
from messages.blocks import ImageBlock
from messages.delivery import PartText, Place, Post, ProblemKind
from messages.gateway import Button

log = structlog.get_logger(__name__)

MOST_BUTTONS: Final = 100
BUTTONS_IN_A_ROW: Final = 4
BUTTON_BYTES: Final = 64
MOST_BEGUN: Final = 1000
MOST_HOLDS: Final = 10_000
GENERAL: Final = 1
"""The topic of a forum that every message without a topic belongs to; the service refuses its number."""

_PLAIN = r"can't parse entities|ENTITY|entit(?:y|ies)"
_NO_PICTURE = r"PHOTO_|IMAGE_PROCESS_FAILED|wrong type of the web page content|photo"
_NO_DRAFT = (
    r"message to edit not found|message can't be edited|MESSAGE_ID_INVALID|no text in the message to edit"
)
SAME: Final = "message is not modified"

Json = dict[str, Any]


class Holds:
    """Until when the service wants to hear nothing about a chat."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def check(self, chat: str) -> None:
        """Raise RATE_LIMITED for what is left, without asking the service again."""
        left = self._until.get(chat, 0.0) - self._clock.monotonic()
        if left > 0:
            raise EdgeError(ProblemKind.RATE_LIMITED, "the chat is still held back", retry_after_s=left)
        self._until.pop(chat, None)

    def note(self, chat: str, error: EdgeError) -> None:
        if error.problem.kind is not ProblemKind.RATE_LIMITED or not error.problem.retry_after_s:
            return
        now = self._clock.monotonic()
        if len(self._until) >= MOST_HOLDS:
            self._until = {c: until for c, until in self._until.items() if until > now}
        self._until[chat] = now + error.problem.retry_after_s


class Poster:
    """Posts for one account."""

    def __init__(self, api: Api, options: TelegramOptions, clock: Clock, most_bytes: int) -> None:
        self._api = api
        self._previews = options.link_previews
        self._most_bytes = most_bytes
        self._clock = clock
        self.holds = Holds(clock)
        self.moved: dict[str, str] = {}
        """Chats that have another id now."""
        self.below: OrderedDict[str, str] = OrderedDict()
        """By a pressed button's id: the message that it stands below."""
        self._begun: OrderedDict[str, list[str]] = OrderedDict()
        """By a part's key: what stands in the chat of a part that needs several messages."""

    async def post(self, post: Post) -> str:
        """Post once. Raises EdgeError."""
        chat = self.chat_of(post.place)
        reply_to = self._reply_to(post.reply_to)
        try:
            if post.draft is not None and (done := await self._from_draft(post, post.draft)) is not None:
                return done
            messages = self._messages(post.body)
            receipts = self._begun.get(post.key, [])
            for number, message in enumerate(messages[len(receipts) :], start=len(receipts)):
                receipt = await self._send(post.place, chat, message, reply_to if number == 0 else None)
                receipts = [*receipts, receipt]
                if len(messages) > 1:
                    self._remember(post.key, receipts)
        except EdgeError as error:
            self.holds.note(chat, error)
            if post.draft is not None and error.problem.kind is ProblemKind.UNKNOWN:
                # An edit of which nobody knows is transient, so this was a new post.
                error.problem = error.problem.model_copy(update={"draft_gone": True})
            raise
        self._begun.pop(post.key, None)
        return receipts[0]

    def chat_of(self, place: Place) -> str:
        """Return the chat's id. Raises EdgeError when it has moved, or is held back."""
        chat = place.chat if place.chat is not None else place.user or ""
        if (new := self.moved.get(chat)) is not None:
            raise EdgeError(ProblemKind.TARGET_GONE, f"the chat is {new} now", moved_to=new)
        if not chat.removeprefix("-").isdigit():
            raise EdgeError(ProblemKind.TARGET_GONE, f"{chat[:40]!r} is no chat's id: it is a number")
        self.holds.check(chat)
        return chat

    def remember_button(self, query: str, below: int) -> None:
        self.below[query] = str(below)
        if len(self.below) > MOST_BEGUN:
            self.below.popitem(last=False)

    def _remember(self, key: str, receipts: list[str]) -> None:
        self._begun[key] = receipts
        if len(self._begun) > MOST_BEGUN:
            self._begun.popitem(last=False)

    # ------------------------------------------------------------------ drafts

    async def _from_draft(self, post: Post, draft: str) -> str | None:
        """Make the post of a draft that stands in the chat; None when it cannot become one."""
        if post.body.file is not None or post.body.file_name is not None:
            await self._drop(post.place, draft)
            return None
        try:
            await self.edit(post.place, draft, post.body.text, post.body.buttons)
        except ApiError as error:
            if says(error.answer, _NO_DRAFT):
                await self._drop(post.place, draft)
                return None
            if error.problem.kind is ProblemKind.UNKNOWN:
                # An edit that is made twice makes no difference.
                raise EdgeError(ProblemKind.TRANSIENT, error.problem.detail) from None
            raise
        return draft

    async def _drop(self, place: Place, draft: str) -> None:
        """Take a draft away before its answer is posted anew. Raises EdgeError when that must wait."""
        try:
            await self.remove(place, draft)
        except ApiError as error:
            match error.problem.kind:
                case ProblemKind.REFUSED:
                    log.warning("a draft stays in its chat", why=error.problem.detail)
                case ProblemKind.UNKNOWN:
                    # Nothing of the answer was posted.
                    raise EdgeError(ProblemKind.TRANSIENT, error.problem.detail) from None
                case _:
                    raise

    async def edit(self, place: Place, receipt: str, text: str, buttons: tuple[Button, ...]) -> None:
        """Change a message of ours. Raises EdgeError."""
        chat, rendered = self.chat_of(place), render(with_commands(text, buttons))
        parameters = {
            "chat_id": chat,
            "message_id": _message_id(receipt),
            "reply_markup": keyboard(buttons),
            **self._preview(),
        }
        try:
            await self._with_text("editMessageText", "text", rendered, parameters)
        except ApiError as error:
            self.holds.note(chat, error)
            if not says(error.answer, SAME):
                raise

    async def remove(self, place: Place, receipt: str) -> None:
        """Take a message of ours away; one that is gone is as good."""
        chat = self.chat_of(place)
        try:
            await self._api.call("deleteMessage", chat_id=chat, message_id=_message_id(receipt))
        except ApiError as error:
            self.holds.note(chat, error)
            if not says(
                error.answer, "message to delete not found|message can't be deleted|MESSAGE_ID_INVALID"
            ):
                raise

    # ------------------------------------------------------------------ messages

    def _messages(self, body: PartText) -> list[PartText]:
        """Cut a part into what one call can post. Raises EdgeError for a file that is too large."""
        if body.file is None and body.file_name is None:
            return [body]
        if body.file_name is not None:
            self._check_size(body.file_name, len(body.text.encode("utf-8", "surrogatepass")))
            return [body]
        assert body.file is not None
        self._check_size(_name_of(body.file), _size_of(Path(body.file.path)))
        if measure(shown(body.text), Unit.UTF16) <= CAPTION:
            return [body]
        first, *rest = split(body.text, CAPTION, Unit.UTF16, shown)
        remaining = "".join(chunk.before + chunk.body for chunk in rest[:1]) + "".join(
            c.body for c in rest[1:]
        )
        texts = [chunk.text for chunk in split(remaining, LENGTH, Unit.UTF16, shown)]
        with_file = body.model_copy(update={"text": first.text, "buttons": ()})
        more = [PartText(text=text) for text in texts]
        more[-1] = more[-1].model_copy(update={"buttons": body.buttons})
        return [with_file, *more]

    def _check_size(self, name: str, size: int) -> None:
        if size > self._most_bytes:
            why = f"the file {name} has {amount(size)}; Telegram takes at most {amount(self._most_bytes)} from a bot"
            raise EdgeError(ProblemKind.REFUSED, why)
        if size == 0:
            raise EdgeError(ProblemKind.REFUSED, f"the file {name} is empty; Telegram takes no empty files")

    async def _send(self, place: Place, chat: str, body: PartText, reply_to: int | None) -> str:
        parameters: Json = {"chat_id": chat, "message_thread_id": thread_of(place)}
        if reply_to is not None:
            parameters["reply_parameters"] = {"message_id": reply_to, "allow_sending_without_reply": True}
        parameters["reply_markup"] = keyboard(body.buttons)
        if body.file is not None or body.file_name is not None:
            answer = await self._send_file(body, parameters)
        else:
            rendered = render(with_commands(body.text, body.buttons))
            answer = await self._with_text("sendMessage", "text", rendered, {**parameters, **self._preview()})
        receipt = answer.get("message_id") if isinstance(answer, dict) else None
        if type(receipt) is not int:
            raise EdgeError(ProblemKind.UNKNOWN, "an answer of an odd shape: it names no message")
        return str(receipt)

    async def _send_file(self, body: PartText, parameters: Json) -> Any:
        if body.file_name is not None:
            content = body.text.encode("utf-8", "replace")
            name = file_name(body.file_name, "answer.md")
            return await self._upload(
                "sendDocument", "document", io.BytesIO(content), name, Rendered(""), parameters
            )
        assert body.file is not None
        path, name, caption = (
            Path(body.file.path),
            _name_of(body.file),
            render(with_commands(body.text, body.buttons)),
        )
        with ExitStack() as open_files:
            try:
                file = open_files.enter_context(path.open("rb"))  # noqa: ASYNC230 the client reads it in pieces
            except OSError as error:
                raise EdgeError(
                    ProblemKind.REFUSED, f"the file {name} cannot be read: {error.strerror}"
                ) from None
            if _is_photo(body.file, _size_of(path)):
                try:
                    return await self._upload("sendPhoto", "photo", file, name, caption, parameters)
                except ApiError as error:
                    if not says(error.answer, _NO_PICTURE):
                        raise
                    log.debug("a picture goes out as a file", why=error.problem.detail)
            return await self._upload("sendDocument", "document", file, name, caption, parameters)

    async def _upload(
        self, method: str, field: str, file: Any, name: str, caption: Rendered, parameters: Json
    ) -> Any:
        def again() -> Json:
            file.seek(0)
            return {**parameters, field: InputFile(file, filename=name, read_file_handle=False)}

        return await self._with_text(method, "caption", caption, again)

    async def _with_text(self, method: str, field: str, rendered: Rendered, parameters: Any) -> Any:
        """Call with a text and its entities; without these when the service does not understand them."""
        make = parameters if callable(parameters) else lambda: parameters
        marks = "entities" if field == "text" else "caption_entities"
        entities = list(rendered.entities) or None
        text = rendered.text or None
        try:
            return await self._api.call(method, **{**make(), field: text, marks: entities})
        except ApiError as error:
            if entities is None or not says(error.answer, _PLAIN):
                raise
            log.warning("the mark-up was not understood; the text goes out plain", why=error.problem.detail)
        return await self._api.call(method, **{**make(), field: text})

    def _preview(self) -> Json:
        return {} if self._previews else {"link_preview_options": {"is_disabled": True}}

    def _reply_to(self, message_id: str | None) -> int | None:
        if message_id is None:
            return None
        return _message_id(self.below.get(message_id, message_id))


def thread_of(place: Place) -> int | None:
    """Return the number of the topic, for a call."""
    thread = _message_id(place.thread or "")
    return None if thread == GENERAL else thread


def keyboard(buttons: tuple[Button, ...]) -> Json | None:
    """Return the inline keyboard: a few buttons a row."""
    fitting = [b for b in buttons if 1 <= len(b.command.encode("utf-8", "replace")) <= BUTTON_BYTES][
        :MOST_BUTTONS
    ]
    faces = [{"text": b.label[:64].strip() or b.command, "callback_data": b.command} for b in fitting]
    rows = [faces[at : at + BUTTONS_IN_A_ROW] for at in range(0, len(faces), BUTTONS_IN_A_ROW)]
    return {"inline_keyboard": rows} if rows else None


def with_commands(text: str, buttons: tuple[Button, ...]) -> str:
    """Say below the text what is too long for a button."""
    said = [
        f"{b.label}: `{b.command}`"
        for b in buttons
        if len(b.command.encode("utf-8", "replace")) > BUTTON_BYTES
    ]
    return "\n\n".join([text, *said]) if said else text


def _message_id(text: str) -> int | None:
    """Return the number of a message; ids of other things are larger than any of those."""
    return (
        int(text)
        if text.isascii() and text.isdigit() and len(text) <= 10 and 0 < int(text) < 1 << 31
        else None
    )


def _name_of(file: Any) -> str:
    fallback = Path(file.path).name or "file"
    return file_name(getattr(file, "name", None), file_name(fallback, "file"))


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise EdgeError(ProblemKind.REFUSED, f"the file {path.name} cannot be read: {why}") from None


def _is_photo(file: Any, size: int) -> bool:
    return isinstance(file, ImageBlock) and file.mime in ("image/png", "image/jpeg") and size <= PHOTO_BYTES
