"""What the simulated Telegram can be asked for, and how it pushes updates. See `telegram.py`."""

import asyncio
import contextlib
import itertools
import re
import time
from typing import Any

import aiohttp

from tests.platforms.simulators.telegram_world import (
    BOT_ID,
    BOT_NAME,
    REACTIONS,
    BotError,
    Chat,
    Json,
    World,
    bad,
    decoded,
)

TEN_S = aiohttp.ClientTimeout(total=10)


class Service(World):
    """The service as programs see it."""

    # ------------------------------------------------------------------ methods

    def get_me(self, _: Json) -> Json:
        return {
            "id": BOT_ID,
            "is_bot": True,
            "first_name": "Callboard",
            "username": BOT_NAME,
            "can_join_groups": True,
            "can_read_all_group_messages": not self.privacy,
            "supports_inline_queries": False,
        }

    def post(self, call: Json, text: str, name: str, **more: Any) -> Json:
        chat = self.target(call)
        thread, reply, buttons = self.thread(call, chat), self.reply(call, chat), self.keyboard(call)
        self.count(chat)
        number = self.next_id(chat)
        message: Json = {
            "message_id": number,
            "date": int(time.time()),
            "chat": chat.face(),
            "from": {
                k: v for k, v in self.get_me({}).items() if k in ("id", "is_bot", "first_name", "username")
            },
            name: text,
            **more,
        }
        entities = decoded(call.get("entities") or call.get("caption_entities"), [])
        if entities:
            message["entities" if name == "text" else "caption_entities"] = entities
        if thread is not None:
            message |= {"message_thread_id": thread, "is_topic_message": True}
        if reply is not None:
            message["reply_to_message"] = {
                k: v for k, v in chat.messages[reply].items() if k != "reply_to_message"
            }
        if buttons:
            message["reply_markup"] = decoded(call.get("reply_markup"), {})
        chat.messages[number] = message
        self.posted_at[chat.id, number] = time.monotonic()
        return message

    def send_message(self, call: Json) -> Json:
        text = self.text_of(call, "text", 4096, "message")
        if not text.strip():
            raise bad("message text is empty")
        return self.post(call, text, "text")

    def send_file(self, call: Json) -> Json:
        kind = "photo" if "photo" in call else "document"
        what = call.get(kind)
        if not isinstance(what, dict) or "name" not in what:
            raise bad(f"there is no {kind} in the request")
        most = 10_000_000 if kind == "photo" else 50_000_000
        if what["size"] > most:
            raise BotError(413, "Request Entity Too Large")
        if not what["size"]:
            raise bad("file must be non-empty")
        caption = self.text_of(call, "caption", 1024, "message caption")
        kept = {**self.keep(what["name"], what["size"]), "file_name": what["name"]}
        return self.post(call, caption, "caption", **{kind: [kept] if kind == "photo" else kept})

    def _ours(self, call: Json, what: str) -> tuple[Chat, Json]:
        chat = self.target(call)
        message = chat.messages.get(int(call.get("message_id") or 0))
        if message is None:
            raise bad(f"message to {what} not found")
        if message["from"]["id"] != BOT_ID:
            raise bad(f"message can't be {what}ed")
        return chat, message

    def edit_text(self, call: Json) -> Json:
        text = self.text_of(call, "text", 4096, "message")
        if not text.strip():
            raise bad("message text is empty")
        chat, message = self._ours(call, "edit")
        if "text" not in message:
            raise bad("there is no text in the message to edit")
        self.keyboard(call)
        markup, entities = decoded(call.get("reply_markup"), {}), decoded(call.get("entities"), [])
        if (message["text"], message.get("reply_markup", {}), message.get("entities", [])) == (
            text,
            markup,
            entities,
        ):
            raise bad(
                "message is not modified: specified new message content and reply markup are exactly the same "
                "as a current content and reply markup of the message"
            )
        self.count(chat)
        message["text"], message["edits"] = text, message.get("edits", 0) + 1
        message.pop("reply_markup", None)
        message.pop("entities", None)
        message |= ({"reply_markup": markup} if markup else {}) | ({"entities": entities} if entities else {})
        return message

    def delete(self, call: Json) -> bool:
        chat, message = self._ours(call, "delete")
        del chat.messages[message["message_id"]]
        return True

    def act(self, call: Json) -> bool:
        chat = self.target(call)
        self.thread(call, chat)
        if call.get("action") not in ("typing", "upload_document", "upload_photo"):
            raise bad("wrong parameter action in request")
        chat.typing += 1
        return True

    def react(self, call: Json) -> bool:
        chat = self.target(call)
        number = int(call.get("message_id") or 0)
        if number not in chat.messages:
            raise bad("message to react not found")
        emoji = [each.get("emoji", "") for each in decoded(call.get("reaction"), [])]
        if any(each not in REACTIONS for each in emoji) or len(emoji) > 1:
            raise bad("REACTION_INVALID")
        chat.reactions.pop(number, None)
        if emoji:
            chat.reactions[number] = emoji[0]
        return True

    def answer(self, call: Json) -> bool:
        if not call.get("callback_query_id"):
            raise bad("query is too old and response timeout expired or query ID is invalid")
        self.answered.append(call)
        return True

    def set_commands(self, call: Json) -> bool:
        commands = decoded(call.get("commands"), [])
        for each in commands:
            if not re.fullmatch(r"[a-z0-9_]{1,32}", each.get("command", "")):
                raise bad("BOT_COMMAND_INVALID")
            if not 1 <= len(each.get("description", "")) <= 256:
                raise bad("BOT_COMMAND_DESCRIPTION_INVALID")
        if len(commands) > 100:
            raise bad("BOT_COMMANDS_TOO_MUCH")
        self.commands = commands
        return True

    def get_file(self, call: Json) -> Json:
        number = str(call.get("file_id") or "")
        if number not in self.files:
            raise bad("invalid file_id")
        path, data = self.files[number]
        size = data if isinstance(data, int) else len(data)
        if size > 20_000_000:
            raise bad("file is too big")
        return {"file_id": number, "file_unique_id": f"u{number}", "file_size": size, "file_path": path}

    def set_webhook(self, call: Json) -> bool:
        secret = str(call.get("secret_token") or "")
        if secret and not re.fullmatch(r"[A-Za-z0-9_-]{1,256}", secret):
            raise bad("secret token contains unallowed characters")
        self.webhook = {"url": str(call.get("url") or ""), "secret": secret}
        self.allowed = decoded(call.get("allowed_updates"), [])
        if call.get("drop_pending_updates") in ("true", "True", True):
            self.updates.clear()
        self.wake.set()
        return True

    def delete_webhook(self, call: Json) -> bool:
        if call.get("drop_pending_updates") in ("true", "True", True):
            self.updates.clear()
        self.webhook = {}
        return True

    def webhook_info(self, _: Json) -> Json:
        info = {
            "url": self.webhook.get("url", ""),
            "has_custom_certificate": False,
            "pending_update_count": len(self.updates),
        }
        if self.webhook_error:
            info |= {"last_error_message": self.webhook_error, "last_error_date": int(time.time())}
        return info

    async def get_updates(self, call: Json) -> list[Json]:
        if self.webhook.get("url"):
            raise BotError(
                409,
                "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the "
                "webhook first",
            )
        self.poll_turn += 1
        turn = self.poll_turn
        self.wake.set()  # the other one, if there is one, is sent away
        if call.get("allowed_updates") is not None:
            self.allowed = decoded(call["allowed_updates"], [])
        offset, limit = int(call.get("offset") or 0), min(max(int(call.get("limit") or 100), 1), 100)
        while self.updates and self.updates[0]["update_id"] < offset:
            self.updates.popleft()
        until = time.monotonic() + min(float(call.get("timeout") or 0), 50)
        while True:
            if turn != self.poll_turn:
                raise BotError(
                    409,
                    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is "
                    "running",
                )
            if self.updates or time.monotonic() >= until:
                return list(itertools.islice(self.updates, limit))
            self.wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(until - time.monotonic()):
                    await self.wake.wait()

    # ------------------------------------------------------------------ webhooks

    async def push_updates(self) -> None:
        """Send updates to the webhook, one after the other, again until they are taken with a 2xx."""
        async with aiohttp.ClientSession() as http:
            while True:
                if not (self.webhook.get("url") and self.updates):
                    self.wake.clear()
                    await self.wake.wait()
                    continue
                update = self.updates[0]
                headers = (
                    {"X-Telegram-Bot-Api-Secret-Token": self.webhook["secret"]}
                    if self.webhook["secret"]
                    else {}
                )
                try:
                    async with http.post(
                        self.webhook["url"], json=update, headers=headers, timeout=TEN_S
                    ) as answer:
                        status = answer.status
                except (aiohttp.ClientError, TimeoutError) as error:
                    status, self.webhook_error = 0, f"Connection failed: {error}"
                self.pushes.append({"update_id": update["update_id"], "status": status})
                if 200 <= status < 300:
                    self.webhook_error = ""
                    if self.updates and self.updates[0] is update:
                        self.updates.popleft()
                else:
                    await asyncio.sleep(0.1)


METHODS = {
    "getMe": Service.get_me,
    "sendMessage": Service.send_message,
    "sendDocument": Service.send_file,
    "sendPhoto": Service.send_file,
    "editMessageText": Service.edit_text,
    "deleteMessage": Service.delete,
    "sendChatAction": Service.act,
    "setMessageReaction": Service.react,
    "answerCallbackQuery": Service.answer,
    "setMyCommands": Service.set_commands,
    "getMyCommands": lambda service, _: service.commands,
    "getFile": Service.get_file,
    "setWebhook": Service.set_webhook,
    "deleteWebhook": Service.delete_webhook,
    "getWebhookInfo": Service.webhook_info,
    "getUpdates": Service.get_updates,
}
