"""Names for people towards models, where a platform's ids tell more of a person than they should.

A phone number or an address goes to nobody's model. In its place stands a short digest
under a key of this installation: the same person is the same to the model, and who
gets hold of a request cannot find out who it was by trying all phone numbers.
"""

from collections.abc import Collection
from dataclasses import dataclass
from hashlib import blake2b

from actors.gateway.targets import account_name
from messages.gateway import Author, MessageReceived, Origin


@dataclass(frozen=True)
class Aliases:
    """`accounts` are those whose ids are not for models; `key` is secret and stays the same."""

    accounts: Collection[str] = ()
    key: bytes = b""

    def of(self, origin: Origin, user: str) -> str:
        """Return a person's alias on a platform; empty where the id itself may be shown."""
        if account_name(origin.platform, origin.account) not in self.accounts:
            return ""
        said = f"{origin.platform}\0{origin.account}\0{user}".encode("utf-8", "surrogatepass")
        return f"u-{blake2b(said, digest_size=5, key=self.key[:64]).hexdigest()}"

    def given(self, heard: MessageReceived) -> MessageReceived:
        """Return the message with aliases for its author and for whom it replies to."""
        alias = self.of(heard.origin, heard.author.id)
        if not alias:
            return heard
        changes: dict[str, object] = {"author": self._named(heard.author, alias)}
        quote = heard.quote
        if quote is not None and quote.author is not None:
            author = self._named(quote.author, self.of(heard.origin, quote.author.id))
            changes["quote"] = quote.model_copy(update={"author": author})
        return heard.model_copy(update=changes)

    def _named(self, author: Author, alias: str) -> Author:
        """A name that is the id itself (an address, a number) is hidden with it."""
        name = "" if author.id in author.name else author.name
        return author.model_copy(update={"alias": alias, "name": name or alias})
