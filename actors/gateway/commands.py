"""The one registry of slash commands: it feeds the chats, the terminal, the web page and the docs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command."""

    name: str
    argument: str
    """How the argument is shown in help; empty when it takes none."""
    summary: str


COMMANDS = (
    Command("help", "", "Say what I can do"),
    Command("new", "", "Begin a new conversation; the old one stays in the history"),
    Command("stop", "", "Stop what is running now; it works whatever hangs"),
    Command("status", "", "Say what I am doing, how many messages wait, and which model answers"),
    Command(
        "busy", "[interrupt|queue|collect|steer]", "Choose what a message does that comes while I am busy"
    ),
    Command("steer", "TEXT", "Add something to what I am doing, without stopping it"),
    Command("queue", "TEXT", "Say something that gets its own turn after the running one"),
    Command("model", "[PROVIDER/NAME|default]", "Show or choose the model that answers here"),
)

BY_NAME = {command.name: command for command in COMMANDS}


@dataclass(frozen=True, slots=True)
class Parsed:
    """A message that is a command."""

    name: str
    argument: str


def parse(text: str) -> Parsed | None:
    """Read a slash command; None when the text is not one.

    A command is a slash and a word of letters at the very start: paths
    (`/etc/hosts`) and lone slashes are things said to the model. A platform's
    `/stop@name_of_bot` is `/stop`.
    """
    if not text.startswith("/"):
        return None
    head, _, argument = text[1:].partition(" ")
    first, newline, rest = head.partition("\n")
    name = first.split("@", 1)[0].lower()
    if not name or not name.isascii() or not name.replace("_", "").isalpha():
        return None
    return Parsed(name, f"{rest} {argument}".strip() if newline else argument.strip())


def help_text() -> str:
    """All commands, as a person reads them in a chat."""
    lines = [f"- `/{c.name}{' ' + c.argument if c.argument else ''}` {c.summary}" for c in COMMANDS]
    return "\n".join(["Say anything, or:", "", *lines])
