"""Ids that tell of a person do not go to models; the same person is the same nevertheless."""

from datetime import UTC, datetime

from actors.gateway.aliases import Aliases
from actors.session.quoting import named
from messages.gateway import Author, ChatType, MessageReceived, Origin, Quote
from messages.ids import MessageId

ALIASES = Aliases(frozenset({"email", "sms/work"}), b"a secret of this installation")


def heard(user: str, name: str = "Bob", platform: str = "email", account: str = "main") -> MessageReceived:
    return MessageReceived(
        message_id=MessageId("m1"),
        origin=Origin(platform=platform, account=account, chat_type=ChatType.GROUP, chat="list", user=user),
        author=Author(id=user, name=name),
        text="hello",
        quote=Quote(message_id=MessageId("m0"), author=Author(id="eve@example.org", name="Eve"), text="hm"),
        at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def test_an_address_is_not_shown_to_a_model() -> None:
    said = ALIASES.given(heard("bob@example.org"))
    assert "bob@example.org" not in named(said.author)
    assert named(said.author).startswith('"Bob" id u-')
    assert said.quote is not None
    assert said.quote.author is not None
    assert "eve@example.org" not in named(said.quote.author)
    assert said.author.id == "bob@example.org", "access goes by the id, as ever"


def test_a_name_that_is_the_address_is_hidden_too() -> None:
    said = ALIASES.given(heard("bob@example.org", name="bob@example.org"))
    assert "bob@example.org" not in named(said.author)


def test_the_same_person_has_one_alias_and_others_have_others() -> None:
    first, again, other = (
        ALIASES.given(heard(user)).author.alias for user in ("a@x.org", "a@x.org", "b@x.org")
    )
    assert first == again != other
    elsewhere = Aliases(ALIASES.accounts, b"another installation")
    assert elsewhere.given(heard("a@x.org")).author.alias != first


def test_accounts_whose_ids_say_nothing_are_left_alone() -> None:
    for platform, account in (("discord", "main"), ("sms", "main")):
        message = heard("123", platform=platform, account=account)
        assert ALIASES.given(message) is message
    assert ALIASES.given(heard("+49123", platform="sms", account="work")).author.alias
