"""Posts, drafts, look-ups and reactions: from ours to Discord's calls."""

import asyncio
import io
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from actors.clock import Clock, WallClock
from actors.gateway.attachments import in_words, safe_name
from actors.gateway.chunks import Unit, measure, split
from actors.gateway.edge import EdgeError
from actors.gateway.platforms.discord.directory import as_dict, as_dicts, as_id, millis
from actors.gateway.platforms.discord.errors import DiscordError, names_field
from actors.gateway.platforms.discord.interactions import NO_PINGS, Interactions
from actors.gateway.platforms.discord.options import DiscordOptions
from actors.gateway.platforms.discord.render import discord_markdown
from actors.gateway.platforms.discord.rest import Rest
from messages.blocks import FileBlock
from messages.delivery import DraftRemoved, DraftShown, PartText, Place, Post, ProblemKind
from messages.gateway import Button

LONGEST = 2000
MOST_BUTTONS = 25
BUTTONS_A_ROW = 5
LONGEST_LABEL = 80
LONGEST_COMMAND = 100
STYLES = {"normal": 2, "good": 3, "bad": 4}
MOST_REMEMBERED = 10_000
OLD_S = 3600.0
"""A post that answers nothing in particular is looked for among what is younger."""

_MESSAGES = "/channels/{channel}/messages"
MESSAGE = "/channels/{channel}/messages/{message}"

CANNOT_REPLY = 160002
UNKNOWN_MESSAGE = 10008


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that goes out, opened by whoever sends it."""

    name: str
    size: int
    path: Path | None = None
    data: bytes = b""


class Memory(OrderedDict[str, str]):
    """What was learned lately, the oldest forgotten first."""

    def note(self, key: str, value: str) -> None:
        self[key] = value
        self.move_to_end(key)
        if len(self) > MOST_REMEMBERED:
            self.popitem(last=False)


@dataclass
class Sayer:
    """Makes the calls. One for each connection."""

    rest: Rest
    clock: Clock
    options: DiscordOptions
    interactions: Interactions
    user: str = ""
    """Our own id, once it is known."""
    posted: Memory = field(default_factory=Memory)
    """Ids of our posts by nonce: of what Discord returned, and of what came back to us as an event."""
    ours: Memory = field(default_factory=Memory)
    """Ids of our posts and the key that they belong to; drafts to none."""
    _direct: Memory = field(default_factory=Memory)

    # ------------------------------------------------------------------ posts

    async def say(self, post: Post) -> str:
        """Post once. Raises EdgeError."""
        if post.attempt > 1 and (known := self.posted.get(post.key[:25])) is not None:
            return known  # it came back to us as an event, though its call got no answer
        channel = await self.channel(post.place)
        upload = await self._upload(post.body)
        text = "" if post.body.file_name is not None else with_commands(post.body.text, post.body.buttons)
        if post.draft is not None:
            if upload is None and await self._made_of_draft(channel, post, text):
                return self._noted(post.key, post.draft)
            await self._remove(channel, post.draft)
        if post.attempt > 1 and post.reply_to is not None:
            # An answer through an interaction carries no key: only looking tells.
            found = await self.find(post)
            if found is not None:
                return found
        text = await self._ahead(channel, post, text)
        payload = self.payload(text, post.body.buttons)
        interaction = self.interactions.can_answer(post.reply_to)
        if interaction is not None:
            receipt = await self.interactions.answer(interaction, payload, await _form(payload, upload))
            if receipt is not None:
                return self._noted(post.key, receipt)
        payload |= {"nonce": post.key[:25], "enforce_nonce": True}
        reply_to = None if self.interactions.known(post.reply_to) else as_id(post.reply_to)
        return self._noted(post.key, await self._post(channel, payload, upload, reply_to))

    async def _post(
        self, channel: str, payload: dict[str, Any], upload: Upload | None, reply_to: str | None
    ) -> str:
        if reply_to is not None:
            quoting = payload | {"message_reference": _reference(channel, reply_to)}
            try:
                return await self._create(channel, quoting, upload)
            except DiscordError as error:
                # Refused for the reply alone, so not posted: the text must not be lost for it.
                if error.code != CANNOT_REPLY and not names_field(error, "message_reference"):
                    raise
        return await self._create(channel, payload, upload)

    async def _create(self, channel: str, payload: Mapping[str, Any], upload: Upload | None) -> str:
        form = await _form(payload, upload)
        body = await self.rest.call(
            "POST", _MESSAGES, channel=channel, json=payload if form is None else None, form=form
        )
        identity = as_id(as_dict(body).get("id"))
        if identity is None:
            raise DiscordError(ProblemKind.UNKNOWN, "Discord took the post and named no message")
        self.ours.note(identity, str(payload.get("nonce") or ""))
        return identity

    async def _ahead(self, channel: str, post: Post, text: str) -> str:
        """Post what is too long for one message ahead of it, each with a key of its own; return the rest."""
        chunks = _pieces(text)
        for number, chunk in enumerate(chunks[:-1]):
            nonce = f"{post.key[:23]}{number % 100:02d}"
            await self._create(
                channel, self.payload(chunk, ()) | {"nonce": nonce, "enforce_nonce": True}, None
            )
        return chunks[-1] if chunks else ""

    def payload(self, text: str, buttons: tuple[Button, ...]) -> dict[str, Any]:
        """Return what every message of ours has: nobody is ever pinged."""
        content = discord_markdown(text)
        return {"content": content, "allowed_mentions": dict(NO_PINGS), "components": components(buttons)[0]}

    def _noted(self, key: str, receipt: str) -> str:
        self.posted.note(key[:25], receipt)
        self.ours.note(receipt, key)
        return receipt

    async def _upload(self, body: PartText) -> Upload | None:
        if body.file_name is not None:
            data = body.text.encode("utf-8", "replace")
            upload = Upload(safe_name(body.file_name), len(data), data=data)
        elif body.file is not None:
            path = Path(body.file.path)
            try:
                size = (await asyncio.to_thread(path.stat)).st_size
            except OSError:
                raise EdgeError(ProblemKind.REFUSED, f"the file {path.name} is not there any more") from None
            name = body.file.name if isinstance(body.file, FileBlock) else _image_name(path, body.file.mime)
            upload = Upload(safe_name(name), size, path=path)
        else:
            return None
        if upload.size > self.options.file_bytes:
            raise EdgeError(
                ProblemKind.REFUSED,
                f"the file {upload.name} has {in_words(upload.size)}; "
                f"Discord takes {in_words(self.options.file_bytes)} at most here",
            )
        return upload

    async def channel(self, place: Place) -> str:
        """Return the channel to write in: a thread is one, and so is a direct message. Raises EdgeError."""
        target = place.thread or place.chat
        if target is not None:
            if as_id(target) is None:
                raise EdgeError(ProblemKind.TARGET_GONE, f"{target!r} is no id of a channel")
            return target
        user = as_id(place.user)
        if user is None:
            raise EdgeError(ProblemKind.TARGET_GONE, "neither a channel nor a user is named")
        if user not in self._direct:
            body = await self.rest.call("POST", "/users/@me/channels", json={"recipient_id": user})
            identity = as_id(as_dict(body).get("id"))
            if identity is None:
                raise EdgeError(ProblemKind.TRANSIENT, "Discord opened no direct message")
            self._direct.note(user, identity)
        return self._direct[user]

    # ------------------------------------------------------------------ looking

    async def find(self, post: Post) -> str | None:
        """Look for a post: among what came back to us, then in the channel's history. Raises EdgeError."""
        known = self.posted.get(post.key[:25])
        if known is not None:
            return known
        channel = await self.channel(post.place)
        query = {"limit": "100"}
        asked = as_id(post.reply_to)
        if asked is not None:
            query["after"] = asked
        body = await self.rest.call("GET", _MESSAGES, channel=channel, query=query)
        found = None
        for message in as_dicts(body, 100):
            if self._is_it(message, post):
                found = as_id(message.get("id"))
        return None if found is None else self._noted(post.key, found)

    def _is_it(self, message: Mapping[str, Any], post: Post) -> bool:
        identity = as_id(message.get("id"))
        if identity is None or as_id(as_dict(message.get("author")).get("id")) != self.user:
            return False
        if message.get("nonce") == post.key[:25]:
            return True
        if identity != post.draft and self.ours.get(identity, post.key) not in ("", post.key):
            return False  # it is another post of ours
        if not self._same_content(message, post):
            return False
        if post.reply_to is not None:
            reference = as_id(as_dict(message.get("message_reference")).get("message_id"))
            metadata = as_dict(message.get("interaction_metadata")) or as_dict(message.get("interaction"))
            if post.reply_to in (reference, as_id(metadata.get("id"))):
                return True
        if identity == post.draft:
            return True
        age = self.clock.now().timestamp() - millis(identity) / 1000
        return post.reply_to is None and age < OLD_S

    def _same_content(self, message: Mapping[str, Any], post: Post) -> bool:
        names = [each.get("filename") for each in as_dicts(message.get("attachments"), 10)]
        if post.body.file_name is not None:
            return names == [safe_name(post.body.file_name)]
        if post.body.file is not None and not names:
            return False
        there = message.get("content")
        ours = _pieces(with_commands(post.body.text, post.body.buttons)) or [""]
        return isinstance(there, str) and there.strip() == discord_markdown(ours[-1]).strip()

    # ------------------------------------------------------------------ drafts

    async def _made_of_draft(self, channel: str, post: Post, text: str) -> bool:
        """Make the post of its draft; False when the draft cannot become it."""
        assert post.draft is not None
        if measure(discord_markdown(text), Unit.UTF16) > LONGEST or as_id(post.draft) is None:
            return False
        try:
            await self._edit(channel, post.draft, text, post.body.buttons)
        except DiscordError as error:
            if error.problem.kind is ProblemKind.REFUSED:
                return False
            raise
        return True

    async def _edit(self, channel: str, message: str, text: str, buttons: tuple[Button, ...]) -> None:
        await self.rest.call(
            "PATCH", MESSAGE, channel=channel, message=message, json=self.payload(text, buttons)
        )

    async def _remove(self, channel: str, message: str) -> None:
        try:
            await self.rest.call("DELETE", MESSAGE, channel=channel, message=message, patience_s=1.0)
        except DiscordError as error:
            if error.problem.kind not in (ProblemKind.REFUSED, ProblemKind.TARGET_GONE):
                raise

    async def draft(self, view: DraftShown) -> str | None:
        """Show an answer that is being written. Raises EdgeError."""
        channel = await self.channel(view.place)
        text = (_pieces(with_commands(view.text, view.buttons)) or ["…"])[0]
        if view.receipt is not None:
            await self._edit(channel, view.receipt, text, view.buttons)
            return None
        payload = self.payload(text, view.buttons)
        interaction = self.interactions.can_answer(view.reply_to)
        if interaction is not None:
            receipt = await self.interactions.answer(interaction, payload, None)
            if receipt is not None:
                self.ours.note(receipt, "")
                return receipt
        reply_to = None if self.interactions.known(view.reply_to) else as_id(view.reply_to)
        if view.key:
            # The draft of a life that was killed before it could note it is found again by this.
            payload |= {"nonce": f"{view.key[:24]}d", "enforce_nonce": True}
        receipt = await self._post(channel, payload, None, reply_to)
        self.ours.note(receipt, "")
        return receipt

    async def undraft(self, view: DraftRemoved) -> None:
        """Take a draft away. Raises EdgeError."""
        await self._remove(await self.channel(view.place), view.receipt)


def with_commands(text: str, buttons: tuple[Button, ...]) -> str:
    """Say below the text what Discord cannot show as a button."""
    lines = [f"`{button.command}` {button.label}" for button in components(buttons)[1]]
    return "\n".join([text, *lines]) if lines else text


def _pieces(text: str) -> list[str]:
    """Cut what is too long for one message."""
    if measure(discord_markdown(text), Unit.UTF16) <= LONGEST:
        return [text] if text.strip() else []
    return [chunk.text for chunk in split(text, LONGEST, Unit.UTF16, discord_markdown)]


def components(buttons: tuple[Button, ...]) -> tuple[list[dict[str, Any]], list[Button]]:
    """Return rows of buttons, and those that Discord cannot show: too long, doubled, or too many."""
    shown: dict[str, Button] = {}
    rest: list[Button] = []
    for button in buttons:
        fits = 0 < len(button.command) <= LONGEST_COMMAND and len(shown) < MOST_BUTTONS
        if button.command in shown:
            continue
        if fits and button.label.strip():
            shown[button.command] = button
        else:
            rest.append(button)
    forms = [
        {
            "type": 2,
            "style": STYLES[button.style],
            "label": button.label.strip()[:LONGEST_LABEL],
            "custom_id": button.command,
        }
        for button in shown.values()
    ]
    rows = [forms[at : at + BUTTONS_A_ROW] for at in range(0, len(forms), BUTTONS_A_ROW)]
    return [{"type": 1, "components": row} for row in rows], rest


def _reference(channel: str, message: str) -> dict[str, Any]:
    return {"message_id": message, "channel_id": channel, "fail_if_not_exists": False}


def _image_name(path: Path, mime: str) -> str:
    kind = mime.rpartition("/")[2]
    return f"image.{'jpg' if kind == 'jpeg' else kind}" if mime.startswith("image/") else path.name


async def _form(payload: Mapping[str, Any], upload: Upload | None) -> aiohttp.FormData | None:
    """Return the form that carries a file; None where plain JSON does."""
    if upload is None:
        return None
    told = {**payload, "attachments": [{"id": 0, "filename": upload.name}]}
    form = aiohttp.FormData(quote_fields=False)
    form.add_field("payload_json", json.dumps(told, ensure_ascii=False), content_type="application/json")
    data = upload.data
    if upload.path is not None:
        # Within the limit of one post, and read where it blocks nobody.
        try:
            data = await asyncio.to_thread(upload.path.read_bytes)
        except OSError:
            raise EdgeError(ProblemKind.REFUSED, f"the file {upload.name} is not there any more") from None
    form.add_field(
        "files[0]", io.BytesIO(data), filename=upload.name, content_type="application/octet-stream"
    )
    return form


async def post_alone(options: DiscordOptions, post: Post) -> str:
    """Post without a running connection. Raises EdgeError."""
    clock = WallClock()
    async with Rest(options, clock) as rest:
        sayer = Sayer(rest, clock, options, Interactions(rest, clock))
        return await sayer.say(post)
