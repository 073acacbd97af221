"""The silence filter: an agent that listens in a group may choose to say nothing. Pure.

A model that wants to stay silent answers `NO_REPLY`. The rules, which are all:

- In groups and threads, an answer that is nothing but the word is not posted. The
  word may be written `NO_REPLY`, `NO-REPLY` or `NO REPLY`, in capitals or not, may
  be wrapped in quotes, brackets, backticks or asterisks, and may end with a full
  stop or an exclamation mark. The turn counts as answered, and its history keeps
  what the model said.
- In groups and threads, a first or last line that is nothing but the word, written
  in capitals with the underscore, is taken off the answer that stands beside it.
- In direct messages nothing is filtered: who speaks to an agent alone is answered.
- What the program itself says (answers to commands, refusals) is never filtered.
"""

import re

from messages.gateway import ChatType

_WRAPPED = r"[\s\"'`*_\[\](){}<>«»“”„]*"
_SILENT = re.compile(rf"{_WRAPPED}no[_\- ]reply[.!]?{_WRAPPED}[.!]?\s*", re.IGNORECASE)
_EDGE = re.compile(r"\A[\s`*\[\]]*NO_REPLY[\s`*\[\]]*\n|\n[\s`*\[\]]{0,64}NO_REPLY[\s`*\[\].]*+\Z")
LONGEST = 64
"""More than that around the word, without the blanks at both ends, is an answer."""


def heard_by_people(text: str, chat_type: ChatType, *, notice: bool = False) -> str:
    """Return what of an answer is to be posted; empty when the model chose silence."""
    if notice or chat_type is ChatType.DM:
        return text
    bare = text.strip()
    if len(bare) <= LONGEST and _SILENT.fullmatch(bare):
        return ""
    return _EDGE.sub("", text) if "NO_REPLY" in text else text
