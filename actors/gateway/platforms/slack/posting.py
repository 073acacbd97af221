"""From a post to calls of the Web API. A post is marked with its key, so that it can be found again."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal, assert_never

import structlog

from actors.clock import Clock
from actors.gateway.attachments import in_words as size_in_words
from actors.gateway.attachments import safe_name
from actors.gateway.chunks import Unit, split
from actors.gateway.edge import EdgeError
from actors.gateway.platforms.slack.envelopes import Answerable
from actors.gateway.platforms.slack.errors import BAD_BLOCKS, DRAFT_GONE, TOO_LONG, SlackError, is_truncated
from actors.gateway.platforms.slack.hearing import Interactions
from actors.gateway.platforms.slack.options import MOST_POSTED_BYTES, TEXT_LIMIT
from actors.gateway.platforms.slack.render import blocks, in_words, mrkdwn
from actors.gateway.platforms.slack.tidying import Tidying
from actors.gateway.platforms.slack.web import Web
from messages.blocks import FileBlock, ImageBlock
from messages.delivery import (
    DraftRemoved,
    DraftShown,
    EdgeView,
    Place,
    Post,
    ProblemKind,
    ReactionShown,
    TypingShown,
)
from messages.gateway import Button

log = structlog.get_logger(__name__)

EVENT = "callboard_post"
"""The type of the metadata that our posts carry."""

SMALLEST_PIECE = 400
PAGES = 5
PAGE = 200
LOOK_BACK_S = 86_400.0
MOST_SIGNS = 2000

SIGNS = {
    "seen": "eyes",
    "working": "hourglass_flowing_sand",
    "done": "white_check_mark",
    "failed": "x",
}
SPOKEN_COMMANDS = frozenset({"retry", "queue", "steer", "background"})
"""Native commands whose answer is for everybody: the model speaks. Other answers are seen by who asked."""

_NO_SIGN = frozenset(
    {"no_reaction", "already_reacted", "message_not_found", "not_reactable", "bad_timestamp"}
)


class Posting:
    """Posts, looks up and shows, for one connection."""

    def __init__(self, web: Web, clock: Clock, interactions: Interactions, *, unfurl: bool) -> None:
        self._web = web
        self._clock = clock
        self._interactions = interactions
        self._unfurl = unfurl
        self._direct: OrderedDict[str, str] = OrderedDict()
        """The channels of direct messages that went by their user."""
        self._signs: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._shows_status = True
        self._tidying = Tidying(clock)

    async def close(self) -> None:
        """End what is done in the background."""
        await self._tidying.close()

    # ------------------------------------------------------------------ saying

    async def say(self, post: Post) -> str:
        """Post, whole or not at all as far as can be known; the first message's `ts`. Raises EdgeError."""
        channel = await self._channel(post.place)
        if post.body.file is not None or post.body.file_name is not None:
            return await self._say_file(channel, post)
        interaction = self._interactions.get(post.reply_to)
        if interaction is not None and not interaction.direct and interaction.command not in SPOKEN_COMMANDS:
            receipt = await self._respond(interaction, post, "ephemeral")
            if receipt is not None:
                return receipt
        try:
            return await self._say_text(channel, post)
        except SlackError as error:
            if interaction is None or error.problem.kind is not ProblemKind.TARGET_GONE:
                raise
            # Commands can be given in channels that we are not in.
            receipt = await self._respond(interaction, post, "in_channel")
            if receipt is None:
                raise
            return receipt

    async def _say_text(self, channel: str, post: Post) -> str:
        pieces = _pieces(post.body.text, TEXT_LIMIT) or [post.body.text]
        standing: dict[int, str] = {}
        if len(pieces) > 1 and (post.attempt > 1 or post.maybe_duplicate):
            standing = await self._standing(channel, post)
        first = ""
        for number, text in enumerate(pieces, 1):
            ts = standing.get(number)
            if ts is None:
                last = number == len(pieces)
                message = _Message(channel, post, number, len(pieces), post.body.buttons if last else ())
                draft = post.draft if number == 1 else None
                ts = await self._piece(message, text, draft)
            first = first or ts
        return first

    async def _piece(self, message: "_Message", text: str, draft: str | None) -> str:
        """Post a piece; when Slack finds it too long after all, as several shorter ones."""
        try:
            if draft is not None:
                answer = await self._from_draft(message, text, draft)
                if answer is not None:
                    return answer
            return await self._instead(message, text, draft)
        except SlackError as error:
            if error.code in BAD_BLOCKS and message.buttons:
                log.warning("slack did not take the buttons", code=error.code)
                return await self._piece(message.without_buttons(), in_words(text, message.buttons), draft)
            if error.code not in TOO_LONG or len(text) < 2 * SMALLEST_PIECE:
                raise
        shorter = _pieces(text, len(text) // 2)
        if len(shorter) < 2:
            raise EdgeError(ProblemKind.REFUSED, "the text is too long for Slack, and cannot be cut")
        first = ""
        for number, part in enumerate(shorter):
            inner = message if number == len(shorter) - 1 else message.inner()
            ts = await self._piece(inner, part, draft if number == 0 else None)
            first = first or ts
        return first

    async def _instead(self, message: "_Message", text: str, draft: str | None) -> str:
        """Post anew, then take the draft away: until then, another try may still make the answer out of it."""
        ts = await self._posted(message, text)
        if draft is not None:
            await self._delete(message.channel, draft)
        return ts

    async def _posted(self, message: "_Message", text: str) -> str:
        answer = await self._web.write(
            "chat.postMessage",
            channel=message.channel,
            thread_ts=message.post.place.thread,
            unfurl_links=self._unfurl,
            unfurl_media=self._unfurl,
            metadata=message.metadata(),
            **_content(text, message.buttons),
        )
        ts = answer.get("ts")
        if not isinstance(ts, str):
            raise SlackError(ProblemKind.UNKNOWN, "chat.postMessage: no ts came")
        if is_truncated(answer):
            # Half an answer is none: it goes, and comes again in pieces.
            await self._delete(message.channel, ts)
            raise SlackError(ProblemKind.REFUSED, "Slack cut the text", code="msg_too_long")
        return ts

    async def _from_draft(self, message: "_Message", text: str, draft: str) -> str | None:
        """Make the post out of a draft; None when the draft cannot become it."""
        try:
            answer = await self._web.write(
                "chat.update",
                channel=message.channel,
                ts=draft,
                metadata=message.metadata(),
                **_content(text, message.buttons, empty_blocks=True),
            )
        except SlackError as error:
            # Edits have one limit for the whole account: an answer does not wait for it.
            if error.code not in DRAFT_GONE and error.problem.kind is not ProblemKind.RATE_LIMITED:
                raise
            return None
        if is_truncated(answer):
            await self._delete(message.channel, draft)
            raise SlackError(ProblemKind.REFUSED, "Slack cut the text", code="msg_too_long")
        return draft

    async def _delete(self, channel: str, ts: str) -> None:
        await self._tidying.now_or_later(lambda: self._quietly("chat.delete", channel=channel, ts=ts))

    async def _respond(
        self, interaction: Answerable, post: Post, how: Literal["ephemeral", "in_channel"]
    ) -> str | None:
        """Answer at the interaction's own address; None when it does not take it any more."""
        body: dict[str, Any] = {"response_type": how, "replace_original": False}
        body |= _content(post.body.text, post.body.buttons)
        body.pop("link_names", None)
        try:
            await self._web.respond(interaction.url, body)
        except EdgeError as error:
            if error.problem.kind is ProblemKind.REFUSED:
                return None
            raise
        self._interactions.used(interaction.id)
        return f"response:{interaction.id}"

    async def _channel(self, place: Place) -> str:
        if place.chat is not None:
            return place.chat
        if place.user is None:
            raise EdgeError(ProblemKind.TARGET_GONE, "a place without a channel and without a person")
        known = self._direct.get(place.user)
        if known is None:
            answer = await self._web.write("conversations.open", users=place.user)
            told = answer.get("channel")
            known = told.get("id") if isinstance(told, dict) else None
            if not isinstance(known, str):
                raise EdgeError(ProblemKind.TRANSIENT, "conversations.open: no channel came")
            self._direct[place.user] = known
            while len(self._direct) > MOST_SIGNS:
                self._direct.popitem(last=False)
        return known

    # ------------------------------------------------------------------ files

    async def _say_file(self, channel: str, post: Post) -> str:
        name, what, size = await _file_of(post)
        if size > MOST_POSTED_BYTES:
            most = size_in_words(MOST_POSTED_BYTES)
            raise EdgeError(
                ProblemKind.REFUSED, f"{name} has {size_in_words(size)}; Slack takes {most} at most"
            )
        if size == 0:
            raise EdgeError(ProblemKind.REFUSED, f"{name} is empty; Slack takes no empty files")
        captions = [] if post.body.file is None else _pieces(post.body.text, TEXT_LIMIT)
        try:
            receipt = await self._shared(channel, post, name, what, size, captions[:1])
        except SlackError as error:
            if error.problem.kind is ProblemKind.NEEDS_HUMAN and error.code == "missing_scope":
                # Texts can still be posted: this is no reason to hold everything.
                raise EdgeError(ProblemKind.REFUSED, error.problem.detail) from None
            raise
        buttons = post.body.buttons
        rest = captions[1:] or ([""] if buttons else [])
        for number, text in enumerate(rest, 2):
            message = _Message(
                channel, post, number, len(rest) + 1, buttons if number == len(rest) + 1 else ()
            )
            await self._piece(message, text or "What next?", None)
        if post.draft is not None:
            await self._delete(channel, post.draft)
        return receipt

    async def _shared(
        self, channel: str, post: Post, name: str, what: Path | bytes, size: int, caption: Sequence[str]
    ) -> str:
        """Upload, then share; only the last of the three calls posts anything."""
        marked = _marked(name, post.key)
        try:
            answer = await self._web.read("files.getUploadURLExternal", filename=marked, length=size)
        except SlackError as error:
            if error.code in ("file_upload_size_restricted", "storage_limit_reached", "file_too_large"):
                detail = (
                    f"{name} has {size_in_words(size)}, and the workspace takes no such file: {error.code}"
                )
                raise EdgeError(ProblemKind.REFUSED, detail) from None
            raise
        url, file_id = answer.get("upload_url"), answer.get("file_id")
        if not isinstance(url, str) or not isinstance(file_id, str):
            raise EdgeError(ProblemKind.TRANSIENT, "files.getUploadURLExternal: no address came")
        await self._web.upload(url, what)
        await self._web.write(
            "files.completeUploadExternal",
            files=[{"id": file_id, "title": name}],
            channel_id=channel,
            thread_ts=post.place.thread,
            initial_comment=mrkdwn(caption[0]) if caption else None,
        )
        return file_id

    # ------------------------------------------------------------------ looking up

    async def find(self, post: Post) -> str | None:
        """Look for a post by its key. Raises EdgeError."""
        channel = await self._channel(post.place)
        if post.body.file is not None or post.body.file_name is not None:
            return await self._find_file(channel, post)
        standing = await self._standing(channel, post)
        whole = len(_pieces(post.body.text, TEXT_LIMIT)) or 1
        if whole not in standing:
            return None
        first = standing[min(standing)]
        if post.draft is not None and post.draft not in standing.values():
            await self._delete(channel, post.draft)
        return first

    async def _standing(self, channel: str, post: Post) -> dict[int, str]:
        """Return the pieces of a post that stand in the chat."""
        found: dict[int, str] = {}
        async for message in self._recent(channel, post.place.thread):
            metadata = message.get("metadata")
            payload = metadata.get("event_payload") if isinstance(metadata, dict) else None
            if not isinstance(payload, dict) or payload.get("key") != post.key:
                continue
            piece, ts = payload.get("piece"), message.get("ts")
            if isinstance(piece, int) and piece > 0 and isinstance(ts, str):
                found[piece] = ts
        return found

    async def _find_file(self, channel: str, post: Post) -> str | None:
        token = _token(post.key)
        async for message in self._recent(channel, post.place.thread):
            files = message.get("files")
            for each in files if isinstance(files, list) else ():
                if isinstance(each, dict) and token in str(each.get("name", "")):
                    return str(each.get("id") or message.get("ts"))
        return None

    async def _recent(self, channel: str, thread: str | None) -> AsyncIterator[dict[str, Any]]:
        """Give the messages of the last day in a channel or a thread, a bounded number of them."""
        oldest = f"{self._clock.now().timestamp() - LOOK_BACK_S:.6f}"
        where: dict[str, Any] = {"channel": channel, "include_all_metadata": True, "limit": PAGE}
        if thread is not None:
            where |= {"ts": thread, "oldest": oldest}
        method = "conversations.history" if thread is None else "conversations.replies"
        cursor: str | None = None
        for _ in range(PAGES):
            answer = await self._web.read(method, cursor=cursor, **where)
            messages = answer.get("messages")
            for message in messages if isinstance(messages, list) else ():
                if isinstance(message, dict):
                    yield message
            metadata = answer.get("response_metadata")
            cursor = metadata.get("next_cursor") if isinstance(metadata, dict) else None
            if not cursor:
                return

    # ------------------------------------------------------------------ views

    async def show(self, view: EdgeView) -> str | None:
        """Show what passes; a new draft's `ts`. Raises EdgeError."""
        match view:
            case TypingShown():
                await self._show_typing(view.place)
            case DraftShown():
                return await self._show_draft(view)
            case DraftRemoved():
                channel = await self._channel(view.place)
                await self._quietly("chat.delete", channel=channel, ts=view.receipt)
            case ReactionShown():
                await self._react(view)
            case _:
                assert_never(view)
        return None

    async def _show_typing(self, place: Place) -> None:
        """Only an assistant's threads show it: those of direct messages, where the app is one."""
        if not self._shows_status or place.thread is None or not (place.chat or "").startswith("D"):
            return
        try:
            await self._web.write(
                "assistant.threads.setStatus",
                channel_id=place.chat,
                thread_ts=place.thread,
                status="is thinking…",
            )
        except SlackError as error:
            if error.problem.kind is ProblemKind.RATE_LIMITED:
                raise
            self._shows_status = False
            log.info("no status is shown: the app is no assistant", why=error.problem.detail)

    async def _show_draft(self, view: DraftShown) -> str | None:
        channel = await self._channel(view.place)
        if view.receipt is not None:
            content = _content(view.text, view.buttons, empty_blocks=True)
            await self._web.write("chat.update", channel=channel, ts=view.receipt, **content)
            return None
        answer = await self._web.write(
            "chat.postMessage",
            channel=channel,
            thread_ts=view.place.thread,
            unfurl_links=False,
            unfurl_media=False,
            **_content(view.text, view.buttons),
        )
        ts = answer.get("ts")
        return ts if isinstance(ts, str) else None

    async def _react(self, view: ReactionShown) -> None:
        channel, ts = view.place.chat, view.message_id
        if channel is None or not ts.replace(".", "", 1).isdigit():
            return  # a command or a button: there is no message to put a sign on
        key, wanted = (channel, ts), SIGNS.get(view.sign)
        before = self._signs.get(key)
        if wanted is not None and wanted != before:
            await self._quietly("reactions.add", channel=channel, timestamp=ts, name=wanted)
            self._signs[key] = wanted
            while len(self._signs) > MOST_SIGNS:
                self._signs.popitem(last=False)
        elif wanted is None:
            self._signs.pop(key, None)
        ends = view.sign not in ("seen", "working")
        # An earlier life may have put one; only its signs of waiting would be wrong now.
        stale = {before} if before else {SIGNS["seen"], SIGNS["working"]} if ends else set()
        for name in sorted(stale - {wanted}):
            await self._tidying.now_or_later(self._unsigned(channel, ts, name))

    def _unsigned(self, channel: str, ts: str, name: str) -> Callable[[], Awaitable[None]]:
        async def remove() -> None:
            if self._signs.get((channel, ts)) != name:  # it may have come back meanwhile
                await self._quietly("reactions.remove", channel=channel, timestamp=ts, name=name)

        return remove

    async def _quietly(self, method: str, **body: Any) -> None:
        """Call, and pass over that there is nothing to do."""
        try:
            await self._web.write(method, **body)
        except SlackError as error:
            if error.code not in _NO_SIGN:
                raise


class _Message:
    """One message of a post: where it goes, and which piece of the post it is."""

    def __init__(
        self, channel: str, post: Post, piece: int, of: int, buttons: tuple[Button, ...] = ()
    ) -> None:
        self.channel = channel
        self.post = post
        self.piece = piece
        self.of = of
        self.buttons = buttons

    def metadata(self) -> dict[str, Any]:
        payload = {"key": self.post.key, "piece": self.piece, "of": self.of}
        return {"event_type": EVENT, "event_payload": payload}

    def without_buttons(self) -> "_Message":
        return _Message(self.channel, self.post, self.piece, self.of)

    def inner(self) -> "_Message":
        """A part of the piece that does not complete it."""
        return _Message(self.channel, self.post, 0, self.of)


def _pieces(text: str, limit: int) -> list[str]:
    return [chunk.text for chunk in split(text, max(limit, SMALLEST_PIECE), Unit.CHARACTERS, mrkdwn)]


def _content(text: str, buttons: Sequence[Button], *, empty_blocks: bool = False) -> dict[str, Any]:
    """The words and buttons of a message. `parse` and `link_names` are off: only our own links are links."""
    shown = blocks(text, buttons)
    content: dict[str, Any] = {"text": mrkdwn(text), "mrkdwn": True, "parse": "none", "link_names": False}
    if shown or empty_blocks:
        content["blocks"] = shown
    return content


def _token(key: str) -> str:
    return f"-{key[:12]}"


def _marked(name: str, key: str) -> str:
    """A file's name with the post's key in it: the file can be found again. People see its title."""
    path = Path(name)
    return f"{path.stem}{_token(key)}{path.suffix}"


async def _file_of(post: Post) -> tuple[str, Path | bytes, int]:
    """Return a file's name, content and size in bytes. Raises EdgeError when it is not there."""
    file = post.body.file
    if file is None:
        data = post.body.text.encode()
        return safe_name(post.body.file_name or "answer.md"), data, len(data)
    path = Path(file.path)
    try:
        size = (await asyncio.to_thread(path.stat)).st_size
    except OSError as error:
        raise EdgeError(ProblemKind.REFUSED, f"the file cannot be read: {error.strerror}") from None
    return _name_of(file), path, size


def _name_of(file: FileBlock | ImageBlock) -> str:
    if isinstance(file, FileBlock):
        return safe_name(file.name)
    suffix = {"image/jpeg": ".jpg"}.get(file.mime, f".{file.mime.partition('/')[2] or 'png'}")
    return safe_name(f"image{suffix}")
