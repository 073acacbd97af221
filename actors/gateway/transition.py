"""The front desk's rules: whose session, and is it a command? Pure, but for what the gate remembers.

heard                        becomes
---------------------------  ----------------------------------------------
nothing said at all          turned away
what the gate does not let   left alone, or turned away with the reason
in (see `gating`)
a stranger's knock, /claim,  a message to the access room, which answers
/access, /sethome
/stop                        StopAsked, in the control lane
/steer TEXT, /queue TEXT     UserSpoke with that policy, for this message alone
any other /word              CommandGiven (an unknown one is answered so)
" /word", paths, all else    UserSpoke
"""

from collections.abc import Callable
from dataclasses import dataclass

from actors.gateway import access_words, gating
from actors.gateway.commands import Parsed, help_on, parse
from actors.gateway.gating import Gate
from messages.access import ChooseHome, ClaimTried, StrangerKnocked, WishSpoken
from messages.gateway import MessageReceived
from messages.ids import SessionKey
from messages.model import ModelRef
from messages.session import CommandGiven, StopAsked, UserSpoke
from messages.settings import BusyPolicy

LONGEST_TEXT = 2_000_000
"""In characters: several times the largest context window there is."""


@dataclass(frozen=True, slots=True)
class ToSession:
    """Hand this to that session."""

    key: SessionKey
    message: UserSpoke | CommandGiven | StopAsked


@dataclass(frozen=True, slots=True)
class ToAccess:
    """Hand this to the access room; it sees to the answer."""

    message: WishSpoken | StrangerKnocked | ClaimTried


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """Not taken; `why` is what the person is told."""

    why: str


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """Not said to us, or by nobody who may: nobody is told anything."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the front desk can look up while it decides."""

    resolve_model: Callable[[str], ModelRef]
    """Raises ValueError, with what is known, for a model that is not."""
    models: Callable[[], tuple[ModelRef, ...]]
    process_info: Callable[[], str]
    platforms_info: Callable[[], str]
    """How the connections are doing, in Markdown."""


Decision = ToSession | ToAccess | TurnedAway | LeftAlone


def decide(heard: MessageReceived, key: SessionKey, gate: Gate, knowledge: Knowledge) -> Decision:
    """Say where a message goes, whose conversation has this key."""
    match gate.consider(heard, key):
        case gating.LeftAlone():
            return LeftAlone()
        case gating.Refused(_, text):
            return TurnedAway(text)
        case gating.Stranger():
            return ToAccess(StrangerKnocked(key=key, heard=heard))
        case gating.Claims(said, code, known):
            return ToAccess(ClaimTried(key=key, heard=said, code=code, known=known))
        case gating.LetIn(admitted):
            return _let_in(admitted, key, gate, knowledge)


def _let_in(heard: MessageReceived, key: SessionKey, gate: Gate, knowledge: Knowledge) -> Decision:
    if not heard.text.strip() and not heard.attachments:
        return TurnedAway("The message is empty.")
    if len(heard.text) > LONGEST_TEXT:
        return TurnedAway(f"The message is longer than {LONGEST_TEXT:,} characters. Send it as a file.")
    command = parse(heard.text)
    if command is None:
        return ToSession(key, UserSpoke(heard=heard))
    if gate.guards(heard.origin) and command.name in ("access", "sethome"):
        return ToAccess(_wish(heard, key, command))
    return ToSession(key, _command(heard, key, command, gate, knowledge))


def _command(
    heard: MessageReceived, key: SessionKey, command: Parsed, gate: Gate, knowledge: Knowledge
) -> UserSpoke | CommandGiven | StopAsked:
    name, argument = command.name, command.argument
    match name:
        case "stop":
            return StopAsked(heard=heard, at=heard.at)
        case "steer" | "queue" if argument:
            said = heard.model_copy(update={"text": argument})
            return UserSpoke(heard=said, policy=BusyPolicy(name))
        case "model":
            return _model(heard, argument, knowledge)
        case "help":
            info = help_on(argument)
        case "status":
            info = knowledge.process_info()
        case "platforms":
            info = knowledge.platforms_info()
        case "whoami":
            standing = gate.standing(heard.origin, heard.author.id)
            info = access_words.whoami(heard, standing, key)
        case "access" | "sethome":
            info = NOT_HERE.format(name=name)
        case _:
            info = ""
    return CommandGiven(name=name, argument=argument, heard=heard, info=info)


NOT_HERE = (
    "`/{name}` is for chats on platforms that have access rules. `callboard access` on the command line does "
    "the same for all of them."
)


def _wish(heard: MessageReceived, key: SessionKey, command: Parsed) -> WishSpoken:
    wish, problem = None, ""
    try:
        if command.name == "access":
            wish = access_words.read_wish(command.argument, heard)
        else:
            word = command.argument.strip().lower()
            place = "" if word in ("none", "default", "off") else access_words.here(heard.origin, word)
            wish = ChooseHome(account=access_words.account_of(heard.origin), place=place)
    except access_words.WishError as error:
        problem = str(error)
    return WishSpoken(
        key=key, name=command.name, argument=command.argument, heard=heard, wish=wish, problem=problem
    )


def _model(heard: MessageReceived, argument: str, knowledge: Knowledge) -> CommandGiven:
    wanted = argument.strip()
    if wanted.lower() in ("", "default", "auto"):
        known = ", ".join(f"`{m.provider}/{m.name}`" for m in knowledge.models())
        info = f"Known here: {known}" if known else ""
        return CommandGiven(name="model", argument=argument, heard=heard, info="" if wanted else info)
    try:
        model = knowledge.resolve_model(wanted)
    except ValueError as error:
        return CommandGiven(name="model", argument=argument, heard=heard, info=str(error))
    return CommandGiven(name="model", argument=argument, heard=heard, model=model)
