"""A stage for group chats: many people in one place, what they change, and who presses which button."""

from actors.gateway.actor import ChangeArrived
from actors.gateway.session_key import key_for
from actors.session import facts as f
from messages.gateway import (
    Author,
    Button,
    ChatType,
    MessageDeleted,
    MessageEdited,
    MessageReceived,
    Origin,
    Receipt,
)
from messages.ids import StreamId
from tests.walks.stage import Stage

STAGE = Origin(platform="discord", chat_type=ChatType.GROUP, chat="stage", user="ann")


class GroupStage(Stage):
    """A stage whose people talk in one group."""

    def line(self, text: str, user: str = "ann", name: str = "", **more: object) -> MessageReceived:
        """What somebody says to us in the group."""
        message = self.message(text, STAGE.model_copy(update={"user": user}))
        author = Author(id=user, name=name or user.title())
        return message.model_copy(update={"author": author, "mentions_us": True, **more})

    async def hears(self, text: str, user: str = "ann", name: str = "", **more: object) -> Receipt:
        """Somebody says this in the group."""
        return await self.receipt_of(self.line(text, user, name, **more))

    async def presses(self, button: Button, user: str) -> Receipt:
        """Somebody presses a button in the group."""
        return await self.hears(button.command, user, via="button")

    async def hears_change(self, change: MessageEdited | MessageDeleted) -> None:
        """Somebody changed or took back what they had said."""
        route = self.desk.ask(ChangeArrived(change=change), block=False)
        found = await route
        if found is not None:
            self.sessions.tell(found)
        await self.settle()

    async def group_facts(self, user: str = "ann") -> list[f.SessionFact]:
        """All facts of the conversation that this person has in the group."""
        key = key_for(STAGE.model_copy(update={"user": user}), self.ledger.book)
        recorded = await self.journal.read(StreamId(f"session:{key}"))
        return [r.fact for r in recorded]  # type: ignore[misc]

    async def group_facts_of(self, kind: type, user: str = "ann") -> list[f.SessionFact]:
        """Those of one kind."""
        return [fact for fact in await self.group_facts(user) if isinstance(fact, kind)]

    def buttons(self) -> tuple[Button, ...]:
        """The buttons of the last post that has any."""
        parts = [part for say in self.platform.said for part in say.parts if part.buttons]
        return parts[-1].buttons

    async def model_goes_on(self) -> None:
        """What hangs goes on with what is scripted next."""
        self.models.release()
        await self.settle()
