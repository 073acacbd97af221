"""The edge of a mailbox: reading by IMAP, answering by SMTP. One conversation of mails is one thread."""

import asyncio
import mimetypes
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from email import message_from_bytes
from pathlib import Path

import structlog

from actors.clock import WallClock
from actors.gateway.attachments import in_words, not_fetched, safe_name, saved_at_once, too_large
from actors.gateway.edge import EdgeContext, EdgeError, Hear
from actors.gateway.keeping import Keeping
from actors.gateway.platforms.email.compose import compose, is_ours, message_id
from actors.gateway.platforms.email.mailbox import Mailbox, Opened, Worker
from actors.gateway.platforms.email.options import EmailOptions
from actors.gateway.platforms.email.sending import Sender
from actors.gateway.platforms.email.translate import (
    Arrived,
    Attached,
    Refusal,
    Skipped,
    Translated,
    Us,
    chain_of,
    header,
    short,
    translate,
)
from messages.blocks import FileBlock, ImageBlock, UserBlock
from messages.delivery import EdgeView, Post, ProblemKind

log = structlog.get_logger(__name__)

MOST_CONVERSATIONS = 2000
DEAF_S = 60.0
LOOK_UP_S = 20.0


@dataclass(frozen=True, slots=True)
class Conversation:
    """What an answer in a thread needs to know of it."""

    subject: str
    references: tuple[str, ...]


class EmailEdge:
    """One account. Implements `actors.gateway.edge.Edge`."""

    def __init__(self, options: EmailOptions, context: EdgeContext) -> None:
        self._options = options
        self._context = context
        self._keeping = Keeping.of(context)
        self._us = Us(options.ours, options.trusted_authserv, context.platform, context.account)
        self._sender: Sender | None = None
        self._conversations: OrderedDict[tuple[str, str], Conversation] = OrderedDict()
        """By address and thread; what is forgotten is looked up in the mailbox."""
        self._copies: set[asyncio.Task[None]] = set()
        self._side_room = asyncio.Lock()
        self._uid = 0
        """The last mail that was handed in."""
        self._behind: float | None = None
        """Since when the server has had mail that we have not seen, on the monotonic clock."""
        self.skipped: dict[str, int] = {}
        """How many mails got no answer, by the reason."""

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        self._sender = Sender(self._options)
        worker = Worker(Mailbox(self._options), f"imap:{self._context.account}")
        try:
            await self._sender.check()
            opened = await worker.do(worker.mailbox.open, self._options.folder)
            await self._begin(worker, opened)
            connected()
            while True:
                for uid in await worker.do(worker.mailbox.after, self._uid):
                    await self._take(worker, opened, uid, hear)
                idle_s = self._options.idle_minutes * 60
                await worker.do(worker.mailbox.wait, idle_s, self._options.poll_s)
        finally:
            self._sender = None
            worker.stop()
            for task in self._copies:
                task.cancel()

    # ------------------------------------------------------------------ reading

    async def _begin(self, worker: Worker, opened: Opened) -> None:
        """Find out which mail is the last that was handed in."""
        kept = self._keeping.read("mail")
        if kept.get("folder") == self._options.folder and kept.get("uidvalidity") == opened.uidvalidity:
            self._uid = int(kept.get("uid") or 0)
            return
        self._uid = opened.uidnext - 1
        at = kept.get("at")
        if kept.get("folder") == self._options.folder and isinstance(at, str):
            # The server has numbered its mails anew. What came since then is told by its date.
            later = await worker.do(worker.mailbox.since, datetime.fromisoformat(at))
            self._uid = min(later, default=opened.uidnext) - 1
            log.warning("the mail server has numbered its mails anew", read_from=self._uid + 1)
        await self._keep(opened, self._context.clock.now())

    async def _keep(self, opened: Opened, at: datetime) -> None:
        what = {
            "folder": self._options.folder,
            "uidvalidity": opened.uidvalidity,
            "uid": self._uid,
            "at": at.isoformat(),
        }
        try:
            await asyncio.to_thread(self._keeping.write, "mail", what)
        except OSError as error:
            # Nothing is lost: after the next start more is read again than needed.
            log.warning("where reading stopped could not be kept", error=str(error))

    async def _take(self, worker: Worker, opened: Opened, uid: int, hear: Hear) -> None:
        """Hand in one mail; it counts as read only afterwards."""
        fetched = await worker.do(worker.mailbox.fetch, uid, self._options.fetch_bytes)
        if fetched is not None:
            arrived = Arrived(fetched.raw, f"uid-{opened.uidvalidity}-{uid}", fetched.at, fetched.whole_size)
            now = self._context.clock.now()
            outcome = await asyncio.to_thread(translate, arrived, self._us, now)
            if isinstance(outcome, Translated):
                await self._hand_in(outcome, arrived, hear)
                await worker.do(worker.mailbox.mark_seen, uid)
            else:
                self._pass_over(outcome)
        self._uid = uid
        await self._keep(opened, fetched.at if fetched is not None else self._context.clock.now())

    async def _hand_in(self, found: Translated, arrived: Arrived, hear: Hear) -> None:
        found = await self._with_root(found)
        heard = found.heard
        key = (heard.author.id, heard.origin.thread or "")
        self._remember(key, Conversation(found.subject, found.references))
        blocks = await asyncio.to_thread(self._saved, found, arrived)
        quote = heard.quote
        if quote is not None and is_ours(quote.message_id, self._options.domain):
            quote = quote.model_copy(update={"ours": True})
        await hear(heard.model_copy(update={"attachments": blocks, "quote": quote}))

    async def _with_root(self, found: Translated) -> Translated:
        """Find the conversation of a mail by one of ours: its program may have left out what went before."""
        before = found.references[:-1]
        ours = next((each for each in before if is_ours(each, self._options.domain)), None)
        if ours is None:
            return found
        try:
            known = self._remembered(ours)
            if known is None and ours == before[0]:
                known = await self._conversation_of(ours)
        except EdgeError as error:
            log.warning("the conversation of a mail could not be looked up", why=error.problem.detail)
            return found
        if known is None or known.references[0] == before[0]:
            return found
        chain = (*dict.fromkeys((*known.references, *before)), found.references[-1])
        origin = found.heard.origin.model_copy(update={"thread": short(chain[0])})
        heard = found.heard.model_copy(update={"origin": origin})
        return Translated(heard, found.files, found.subject, chain)

    def _saved(self, found: Translated, arrived: Arrived) -> tuple[UserBlock, ...]:
        return tuple(self._one_saved(each, arrived.whole_size) for each in found.files)

    def _one_saved(self, file: Attached, whole_size: int | None) -> UserBlock:
        if file.data is None:
            return too_large(file.name, whole_size, self._options.fetch_bytes)
        try:
            return saved_at_once(self._context.files, file.name, file.mime, file.data)
        except OSError as error:
            log.warning("an attachment could not be kept", size=len(file.data), error=str(error))
            return not_fetched(file.name, len(file.data), f"it could not be kept here ({error.strerror})")

    def _pass_over(self, outcome: Skipped | Refusal) -> None:
        why = outcome.why if isinstance(outcome, Skipped) else "not understood"
        self.skipped[why] = self.skipped.get(why, 0) + 1
        if isinstance(outcome, Skipped) and outcome.detail:
            log.warning("a mail of ours came back", recipient=outcome.detail, why=why)
        else:
            log.info("a mail gets no answer", why=outcome.why)

    def _remember(self, key: tuple[str, str], conversation: Conversation) -> None:
        self._conversations[key] = conversation
        self._conversations.move_to_end(key)
        while len(self._conversations) > MOST_CONVERSATIONS:
            self._conversations.popitem(last=False)

    # ------------------------------------------------------------------ saying

    async def say(self, post: Post) -> str:
        sender = self._sender
        if sender is None:
            raise EdgeError(ProblemKind.NOT_CONNECTED, "not connected")
        attachment = await asyncio.to_thread(self._attachment, post)
        before = await self._before(post)
        mail = compose(
            self._options,
            post,
            attachment,
            subject=before.subject,
            references=before.references,
            now=self._context.clock.now(),
        )
        to = post.place.chat or post.place.user or ""
        copy = (self._options.address,) if self._options.keep_copy == "self" else ()
        await sender.send(mail, (to, *copy))
        sent = message_id(post.key, self._options.domain)
        if post.place.thread is not None:
            chain = (*before.references, sent)
            self._remember((to.lower(), post.place.thread), Conversation(before.subject, chain))
        if self._options.keep_copy == "sent":
            task = asyncio.create_task(self._keep_copy(mail.as_bytes()), name="email:copy")
            self._copies.add(task)
            task.add_done_callback(self._copies.discard)
        return sent

    async def say_alone(self, post: Post) -> str:
        """Send one mail without reading any. Raises EdgeError."""
        self._sender = Sender(self._options)
        try:
            return await self.say(post)
        finally:
            self._sender = None

    async def _before(self, post: Post) -> Conversation:
        """What went before in the thread; looked up in the mailbox, where we have forgotten it."""
        thread, to = post.place.thread, (post.place.chat or post.place.user or "").lower()
        if thread is None:
            return Conversation("", (post.reply_to,) if post.reply_to else ())
        known = self._conversations.get((to, thread))
        if known is not None:
            return known
        try:
            found = await self._conversation_of(post.reply_to or thread)
        except EdgeError as error:
            log.warning("the subject of a conversation could not be looked up", why=error.problem.detail)
            found = None
        return found or Conversation("", tuple(dict.fromkeys(filter(None, (thread, post.reply_to)))))

    def _attachment(self, post: Post) -> tuple[str, str, bytes] | None:
        body = post.body
        match body.file:
            case FileBlock() as file:
                name, mime = safe_name(file.name), file.mime
            case ImageBlock() as image:
                name, mime = safe_name(Path(image.path).name), image.mime
            case None:
                if body.file_name is None:
                    return None
                name = safe_name(body.file_name)
                return self._fitting(name, mimetypes.guess_type(name)[0] or "text/plain", body.text.encode())
        self._check_size(name, body.file.size)
        try:
            return self._fitting(name, mime, Path(body.file.path).read_bytes())
        except OSError as error:
            raise EdgeError(ProblemKind.REFUSED, f"{name} cannot be read: {error.strerror}") from None

    def _fitting(self, name: str, mime: str, data: bytes) -> tuple[str, str, bytes]:
        self._check_size(name, len(data))
        return name, mime, data

    def _check_size(self, name: str, size: int) -> None:
        limit = self._options.file_bytes
        if size > limit:
            why = f"{name} has {in_words(size)}; a mail may carry {in_words(limit)} (`file_mb`)"
            raise EdgeError(ProblemKind.REFUSED, why)

    async def _keep_copy(self, raw: bytes) -> None:
        try:
            async with self._side() as side:
                folder = await side.do(side.mailbox.sent_folder)
                if folder is not None:
                    await side.do(side.mailbox.keep, folder, raw)
        except (EdgeError, TimeoutError) as error:
            log.warning("a mail was sent, and its copy could not be kept", why=str(error))

    @asynccontextmanager
    async def _side(self) -> AsyncIterator[Worker]:
        """Open a second connection for a moment: the first one listens. One at a time."""
        async with self._side_room, asyncio.timeout(LOOK_UP_S):
            worker = Worker(Mailbox(self._options), f"imap-side:{self._context.account}")
            try:
                await worker.do(worker.mailbox.open, self._options.folder, readonly=True)
                yield worker
            finally:
                worker.stop()

    async def find(self, post: Post) -> str | None:
        if self._sender is None:
            raise EdgeError(ProblemKind.NOT_CONNECTED, "not connected")
        wanted = message_id(post.key, self._options.domain)
        try:
            async with self._side() as side:
                sent = await side.do(side.mailbox.sent_folder)
                for folder in filter(None, (sent, self._options.folder)):
                    if await side.do(side.mailbox.holds, folder, wanted):
                        return wanted
        except TimeoutError:
            raise EdgeError(ProblemKind.TRANSIENT, "the mailbox did not answer in time") from None
        return None

    def _remembered(self, wanted: str) -> Conversation | None:
        return next((each for each in self._conversations.values() if wanted in each.references), None)

    async def _conversation_of(self, wanted: str) -> Conversation | None:
        """Look up a mail by its id. Raises EdgeError."""
        known = self._remembered(wanted)
        if known is not None:
            return known
        try:
            async with self._side() as side:
                sent = await side.do(side.mailbox.sent_folder)
                folders = tuple(filter(None, (self._options.folder, sent)))
                raw = await side.do(side.mailbox.headers_of, folders, wanted)
        except TimeoutError:
            raise EdgeError(ProblemKind.TRANSIENT, "the mailbox did not answer in time") from None
        if raw is None:
            return None
        mail = message_from_bytes(raw)
        return Conversation(header(mail, "Subject"), chain_of(mail, wanted))

    # ------------------------------------------------------------------ alive?

    async def show(self, view: EdgeView) -> str | None:
        """A mail shows nothing that passes."""

    async def probe(self) -> None:
        """Ask over another connection whether the folder has mail that we were not told of."""
        if self._sender is None:
            raise EdgeError(ProblemKind.NOT_CONNECTED, "not connected")
        try:
            async with self._side() as side:
                newest = await side.do(side.mailbox.next_uid, self._options.folder) - 1
        except TimeoutError:
            raise EdgeError(ProblemKind.TRANSIENT, "the mailbox did not answer in time") from None
        now = self._context.clock.monotonic()
        if newest <= self._uid:
            self._behind = None
        elif self._behind is None:
            self._behind = now
        elif now - self._behind > DEAF_S:
            raise EdgeError(ProblemKind.TRANSIENT, "the server has mail and did not tell us")


async def standalone(options: EmailOptions, post: Post) -> str:
    """Send without a connection that reads; no copy is kept. Raises EdgeError."""
    alone = options.model_copy(update={"keep_copy": "none"})
    edge = EmailEdge(alone, EdgeContext("email", "standalone", WallClock()))
    return await edge.say_alone(post)
