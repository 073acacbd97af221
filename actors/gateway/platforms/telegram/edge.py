"""Telegram's edge: one bot's connection. Implements `actors.gateway.edge.Edge`."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, assert_never

import structlog

from actors.gateway.edge import EdgeContext, EdgeError, Hear
from actors.gateway.platforms.telegram.api import Api, ApiError
from actors.gateway.platforms.telegram.errors import says
from actors.gateway.platforms.telegram.fetch import Fetcher
from actors.gateway.platforms.telegram.intake import Intake, IntakeLinks
from actors.gateway.platforms.telegram.options import TelegramOptions, shape
from actors.gateway.platforms.telegram.polling import Poller
from actors.gateway.platforms.telegram.posting import Poster, thread_of
from actors.gateway.platforms.telegram.translate import Ear, Heard, Me
from actors.gateway.platforms.telegram.webhook import Webhook
from messages.delivery import (
    DraftRemoved,
    DraftShown,
    EdgeView,
    PartText,
    Place,
    Post,
    Problem,
    ProblemKind,
    ReactionShown,
    TypingShown,
)
from messages.gateway import ChatMoved, MessageReceived
from messages.ids import DeliveryId

log = structlog.get_logger(__name__)

SIGNS: Final = {"seen": "👀", "working": "✍", "done": "👍", "failed": "😢", "none": None}
"""Of the emoji that every chat allows."""

DEAF_S: Final = 120.0
"""Without any answer to our asking for so long, we hear nothing, whatever else works."""
MOST_MOVED: Final = 1000
MOST_COMMANDS: Final = 100


class TelegramEdge:
    """One account's connection."""

    def __init__(self, options: TelegramOptions, context: EdgeContext) -> None:
        self._options = options
        self._context = context
        self._clock = context.clock
        self._api: Api | None = None
        self._poster: Poster | None = None
        self._poller: Poller | None = None
        self._hear: Hear | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    # ------------------------------------------------------------------ the connection

    async def run(self, hear: Hear, connected: Callable[[], None]) -> None:
        api = Api(self._options)
        intake: Intake | None = None
        try:
            ear = Ear(
                await self._introduced(api),
                self._context.platform,
                self._context.account,
                frozenset(command.name for command in self._context.commands),
            )
            limits, _ = shape(self._options)
            assert limits.file_bytes is not None
            assert limits.fetch_bytes is not None
            fetcher = Fetcher(
                api,
                self._clock,
                self._context.files,
                most=limits.fetch_bytes,
                patience_s=self._options.fetch_timeout_s,
                local=self._options.local_server,
            )
            links = IntakeLinks(hear, self._say_refused, self._acknowledge, self._moved)
            intake = Intake(ear, fetcher, self._clock, links)
            self._hear, self._api = hear, api
            self._poster = Poster(api, self._options, self._clock, limits.file_bytes)
            self._spawn(self._offer_commands(api))
            await self._listen(api, intake, connected)
        finally:
            self._api = self._poster = self._poller = None
            if intake is not None:
                await intake.stop()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await api.close()

    async def _listen(self, api: Api, intake: Intake, connected: Callable[[], None]) -> None:
        if self._options.webhook is not None:
            await Webhook(api, self._options.webhook, intake).run(connected)
            return
        await self._without_webhook(api)
        self._poller = Poller(api, intake, self._clock, self._context.trouble, poll_s=self._options.poll_s)
        connected()
        await self._poller.run()

    async def _introduced(self, api: Api) -> Me:
        try:
            return Me.of(await api.call("getMe"))
        except ValueError as error:
            raise EdgeError(ProblemKind.TRANSIENT, f"{error}: is this a Bot API server?") from None
        except ApiError as error:
            raise _of_the_connection(error) from None

    async def _without_webhook(self, api: Api) -> None:
        """Whoever polls must have no webhook. What waits at Telegram is kept."""
        try:
            info = await api.call("getWebhookInfo")
            url = info.get("url") if isinstance(info, dict) else None
            if url:
                log.warning("the bot had a webhook, which is taken away so that it can be polled")
                await api.call("deleteWebhook", drop_pending_updates=False)
        except ApiError as error:
            raise _of_the_connection(error) from None

    async def _offer_commands(self, api: Api) -> None:
        """Put our slash commands into Telegram's menu, when they are others than there."""
        wanted = [
            {"command": c.name, "description": f"{c.argument} {c.summary}".strip()[:256]}
            for c in self._context.commands[:MOST_COMMANDS]
        ]
        if not wanted:
            return
        try:
            if await api.call("getMyCommands") != wanted:
                await api.call("setMyCommands", commands=wanted)
        except EdgeError as error:
            log.warning("the menu of commands could not be set", why=error.problem.detail)

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ------------------------------------------------------------------ hearing

    def _acknowledge(self, heard: Heard) -> None:
        if self._poster is not None and heard.below is not None:
            self._poster.remember_button(heard.query, heard.below)
        self._spawn(self._answer_query(heard.query))

    async def _answer_query(self, query: str) -> None:
        try:
            if self._api is not None:
                await self._api.call("answerCallbackQuery", callback_query_id=query)
        except EdgeError as error:
            # Too late, after an outage: the button's clock has stopped by itself then.
            log.debug("a pressed button could not be acknowledged", why=error.problem.detail)

    def _moved(self, moved: ChatMoved) -> bool:
        """Note a move; False when it is known already: the service tells of it in both chats."""
        if self._poster is None or self._poster.moved.get(moved.old) == moved.new:
            return False
        if len(self._poster.moved) >= MOST_MOVED:
            del self._poster.moved[next(iter(self._poster.moved))]
        self._poster.moved[moved.old] = moved.new
        return True

    async def _say_refused(self, message: MessageReceived, why: str) -> None:
        """Tell somebody why their message was not taken; they can say it again."""
        if self._poster is None:
            return
        post = Post(
            delivery_id=DeliveryId(f"refused:{message.message_id}"),
            part=1,
            of=1,
            attempt=1,
            key="",
            place=Place(chat=message.origin.chat, thread=message.origin.thread),
            body=PartText(text=why),
            reply_to=message.message_id,
        )
        try:
            await self._poster.post(post)
        except EdgeError as error:
            log.warning("somebody could not be told that they were refused", why=error.problem.detail)

    # ------------------------------------------------------------------ saying and showing

    async def say(self, post: Post) -> str:
        poster = self._connected()
        try:
            return await poster.post(post)
        except EdgeError as error:
            await self._note_move(post.place, error.problem)
            raise

    async def find(self, _: Post) -> str | None:
        """Bots cannot read a chat's history."""
        raise EdgeError(ProblemKind.REFUSED, "Telegram shows bots no history")

    async def show(self, view: EdgeView) -> str | None:
        poster = self._connected()
        chat = poster.chat_of(view.place)
        try:
            match view:
                case TypingShown():
                    await self._typing(poster, view)
                case DraftShown():
                    return await self._draft(poster, view)
                case DraftRemoved():
                    await poster.remove(view.place, view.receipt)
                case ReactionShown():
                    await self._react(chat, view)
                case _:
                    assert_never(view)
        except EdgeError as error:
            poster.holds.note(chat, error)
            await self._note_move(view.place, error.problem)
            raise
        return None

    async def _typing(self, poster: Poster, view: TypingShown) -> None:
        await self._called(
            "sendChatAction",
            chat_id=poster.chat_of(view.place),
            action="typing",
            message_thread_id=thread_of(view.place),
        )

    async def _draft(self, poster: Poster, view: DraftShown) -> str:
        if view.receipt is not None:
            await poster.edit(view.place, view.receipt, view.text, view.buttons)
            return view.receipt
        body = PartText(text=view.text, buttons=view.buttons)
        return await poster.post(
            Post(
                delivery_id=DeliveryId("draft"),
                part=1,
                of=1,
                attempt=1,
                key="",
                place=view.place,
                body=body,
                reply_to=view.reply_to,
            )
        )

    async def _react(self, chat: str, view: ReactionShown) -> None:
        emoji = SIGNS[view.sign]
        if not view.message_id.isdigit() or int(view.message_id) >= 1 << 31:
            return  # a pressed button
        reaction = [] if emoji is None else [{"type": "emoji", "emoji": emoji}]
        try:
            await self._called(
                "setMessageReaction", chat_id=chat, message_id=int(view.message_id), reaction=reaction
            )
        except ApiError as error:
            if not says(error.answer, "REACTION|message to react not found|MESSAGE_ID_INVALID"):
                raise

    async def _called(self, method: str, **parameters: Any) -> Any:
        if self._api is None:
            raise EdgeError(ProblemKind.NOT_CONNECTED, "not connected")
        return await self._api.call(method, **parameters)

    def _connected(self) -> Poster:
        if self._poster is None:
            raise EdgeError(ProblemKind.NOT_CONNECTED, "not connected")
        return self._poster

    async def _note_move(self, place: Place, problem: Problem) -> None:
        if problem.moved_to is None or place.chat is None or self._hear is None:
            return
        moved = ChatMoved(
            platform=self._context.platform,
            account=self._context.account,
            old=place.chat,
            new=problem.moved_to,
            at=self._clock.now(),
        )
        if not self._moved(moved):
            return
        try:
            await self._hear(moved)
        except EdgeError as error:
            log.warning("a chat's move could not be handed in", why=error.problem.detail)
            if self._poster is not None:
                self._poster.moved.pop(moved.old, None)  # the next post to it tells us again

    # ------------------------------------------------------------------ the probe

    async def probe(self) -> None:
        if self._api is None:
            raise EdgeError(ProblemKind.NOT_CONNECTED, "not connected")
        if self._poller is not None:
            silent = self._clock.monotonic() - self._poller.answered_at
            if silent > DEAF_S + self._options.poll_s:
                raise EdgeError(ProblemKind.TRANSIENT, f"no answer to our asking for {silent:.0f} seconds")
        try:
            await self._api.call("getMe")
            if self._options.webhook is not None:
                await self._check_webhook(self._api, self._options.webhook.url)
        except ApiError as error:
            if error.problem.kind is not ProblemKind.RATE_LIMITED:  # which is an answer, too
                raise _of_the_connection(error) from None

    async def _check_webhook(self, api: Api, ours: str) -> None:
        info = await api.call("getWebhookInfo")
        if not isinstance(info, dict):
            return
        if info.get("url") != ours:
            raise EdgeError(ProblemKind.TRANSIENT, "another program has changed this bot's webhook")
        failing = bool(info.get("last_error_message")) and bool(info.get("pending_update_count"))
        why = f"Telegram cannot reach our webhook: {str(info.get('last_error_message'))[:200]}"
        self._context.trouble(why if failing else "")


def _of_the_connection(error: EdgeError) -> EdgeError:
    """What a failed call means for the connection: only a bad token needs somebody's hand."""
    problem = error.problem
    kind = problem.kind if problem.kind is ProblemKind.NEEDS_HUMAN else ProblemKind.TRANSIENT
    return EdgeError(kind, problem.detail, retry_after_s=problem.retry_after_s)
