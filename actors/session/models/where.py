"""Whom a call goes to: what failures need to say in order to be of use."""

from dataclasses import dataclass

from messages.model import ModelRef


@dataclass(frozen=True, slots=True)
class Where:
    """A provider and model, with what may be said of them and what may not."""

    model: ModelRef
    address: str
    """The base URL, or the SDK's own address in words."""
    key_setting: str
    """Where the operator sets the key, in words, such as `OPENAI_API_KEY in the environment`."""
    secrets: tuple[str, ...] = ()
    """What must never appear in a text."""
    on_this_machine: bool = False
