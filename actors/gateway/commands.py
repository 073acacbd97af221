"""The one registry of slash commands: it feeds the chats, the terminal, the web page and the docs."""

from dataclasses import dataclass

from messages.gateway import Role


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command."""

    name: str
    argument: str
    """How the argument is shown in help; empty when it takes none."""
    summary: str
    role: Role = Role.USER
    """Who may give it, unless `command_roles` says otherwise. In a direct message everybody is an admin."""


COMMANDS = (
    Command("help", "[COMMAND]", "Say what I can do"),
    Command("new", "", "Begin a new conversation; the old one stays in the history"),
    Command("stop", "", "Stop what is running now; it works whatever hangs"),
    Command("retry", "", "Answer the last message again"),
    Command("undo", "[N]", "Take back the last exchange, or the last N"),
    Command("queue", "TEXT", "Say something that gets its own turn after the running one"),
    Command("steer", "TEXT", "Add something to what I am doing, without stopping it"),
    Command(
        "busy",
        "[interrupt|queue|collect|steer]",
        "Choose what a message does that comes while I am busy",
        Role.ADMIN,
    ),
    Command("background", "TEXT", "Work on something beside this conversation, and report here"),
    Command("status", "", "Say what I am doing, how many messages wait, and which model answers"),
    Command("usage", "[DAYS]", "Say how many tokens were used here, and what they cost"),
    Command("sessions", "[N]", "List earlier conversations here"),
    Command("resume", "ID", "Take up an earlier conversation of this place"),
    Command("title", "[TEXT]", "Show or choose this conversation's title"),
    Command("compress", "", "Replace the older part of this conversation by a summary"),
    Command("model", "[PROVIDER/NAME|default]", "Show or choose the model that answers here", Role.ADMIN),
    Command("personality", "[NAME|none]", "Show or choose how I speak here", Role.ADMIN),
    Command("approve", "[ID]", "Let a tool run that waits for a yes"),
    Command("deny", "[ID]", "Do not let it run"),
    Command("whoami", "", "Say who you are to me, and what you may do"),
    Command("access", "[…]", "Show or change who may talk to me", Role.ADMIN),
    Command("sethome", "", "Say here what answers nobody: reports of jobs, notices", Role.ADMIN),
    Command("platforms", "", "Say how my connections are doing", Role.ADMIN),
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
