"""Secrets in anything of a message: the text, a name, a topic, a quote, a file's name."""

from datetime import UTC, datetime

from actors.gateway.masking import masked
from actors.redaction import Redactor
from messages.blocks import FileBlock, ImageBlock, TextBlock
from messages.gateway import (
    Author,
    ChatType,
    MessageEdited,
    MessageReceived,
    Origin,
    Quote,
    Said,
    Surroundings,
)
from messages.ids import MessageId

SECRET = "sk-test-AAAA1111BBBB2222"
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
GROUP = Origin(platform="discord", chat_type=ChatType.GROUP, chat="900", user="7")
CLEAN = Redactor((SECRET,)).clean


def test_X05_no_word_of_a_message_keeps_a_secret() -> None:
    ann = Author(id="7", name=f"Ann {SECRET}")
    heard = MessageReceived(
        message_id=MessageId("m1"),
        origin=GROUP,
        author=ann,
        text=f"my key is {SECRET}",
        quote=Quote(message_id=MessageId("m0"), author=ann, text=SECRET),
        surroundings=Surroundings(server=SECRET, chat=SECRET, thread=SECRET, topic=f"key: {SECRET}"),
        attachments=(
            FileBlock(name=f"{SECRET}.txt", mime="text/plain", path="/kept/1", size=3),
            ImageBlock(mime="image/png", path="/kept/2", size=3),
            TextBlock(text=f"[file {SECRET}.zip, 40 MB: larger than can be fetched]"),
        ),
        context=(Said(role="user", text=SECRET),),
        at=NOW,
    )
    found = masked(heard, CLEAN)
    assert "AAAA1111" not in found.model_dump_json()
    assert found.attachments[1] == heard.attachments[1]
    assert found.model_dump_json().count("***") == 11
    edit = MessageEdited(message_id=MessageId("m1"), origin=GROUP, author=ann, text=SECRET, at=NOW)
    assert "AAAA1111" not in masked(edit, CLEAN).model_dump_json()


def test_a_message_without_secrets_is_the_same_object() -> None:
    author = Author(id="7", name="Ann")
    heard = MessageReceived(message_id=MessageId("m1"), origin=GROUP, author=author, text="hi", at=NOW)
    assert masked(heard, CLEAN) is heard
