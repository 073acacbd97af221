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

MORE = {
    "retry": "The earlier answer stays in the history, but I no longer know of it.",
    "undo": "What is taken back stays in the history, but I no longer know of it. What tools did stays done.",
    "queue": "Whatever /busy says, it waits for its turn.",
    "busy": "interrupt: I stop and start again with both. queue: it waits for its turn. collect: all that wait are "
    "answered together. steer: it is added to what I am doing.",
    "background": "It begins without what was said here. Its result comes here, under its title. /stop stops it too.",
    "usage": "Without a number: of the last 30 days.",
    "sessions": "Those of this place alone: nobody sees another's.",
    "resume": "The ID is one of those that /sessions lists, or its beginning or end.",
    "compress": "The last exchanges stay as they are, and the history keeps everything.",
    "approve": "The ID stands in the request. It decides that request and no other; one that is over stays over.",
    "deny": "The ID stands in the request.",
}
"""What there is to know beyond the summary, for /help COMMAND."""

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


def help_on(name: str) -> str:
    """One command, as a person reads about it in a chat; all of them when there is no such command."""
    command = BY_NAME.get(name.strip().lstrip("/").lower())
    if command is None:
        return help_text()
    usage = f"`/{command.name}{' ' + command.argument if command.argument else ''}`"
    who = "" if command.role is Role.USER else f"\n\nFor {command.role.value}s."
    return f"{usage}: {command.summary}.{who}{_more(command)}"


def _more(command: Command) -> str:
    return f"\n\n{MORE[command.name]}" if command.name in MORE else ""


def help_text() -> str:
    """All commands, as a person reads them in a chat."""
    lines = [f"- `/{c.name}{' ' + c.argument if c.argument else ''}` {c.summary}" for c in COMMANDS]
    return "\n".join(["Say anything, or:", "", *lines])
