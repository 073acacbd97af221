"""The front desk's rules: whose session, and is it a command? Pure.

heard                        becomes
---------------------------  ----------------------------------------------
a place that names nobody    turned away, with the reason
nothing said at all          turned away
/stop                        StopAsked, in the control lane
/steer TEXT, /queue TEXT     UserSpoke with that policy, for this message alone
any other /word              CommandGiven (an unknown one is answered so)
" /word", paths, all else    UserSpoke
"""

from collections.abc import Callable
from dataclasses import dataclass

from actors.gateway.commands import help_text, parse
from actors.gateway.session_key import SessionKeyError, key_of
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
class TurnedAway:
    """Not taken; `why` is what the person is told."""

    why: str
    key: SessionKey | None = None


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the front desk can look up while it decides."""

    resolve_model: Callable[[str], ModelRef]
    """Raises ValueError, with what is known, for a model that is not."""
    models: Callable[[], tuple[ModelRef, ...]]
    process_info: Callable[[], str]


def decide(heard: MessageReceived, knowledge: Knowledge) -> ToSession | TurnedAway:
    """Say where a message goes."""
    try:
        key = key_of(heard.origin)
    except SessionKeyError as error:
        return TurnedAway(str(error))
    if not heard.text.strip() and not heard.attachments:
        return TurnedAway("The message is empty.", key)
    if len(heard.text) > LONGEST_TEXT:
        why = f"The message is longer than {LONGEST_TEXT:,} characters. Send it as a file."
        return TurnedAway(why, key)
    command = parse(heard.text)
    if command is None:
        return ToSession(key, UserSpoke(heard=heard))
    return ToSession(key, _command(heard, command.name, command.argument, knowledge))


def _command(
    heard: MessageReceived, name: str, argument: str, knowledge: Knowledge
) -> UserSpoke | CommandGiven | StopAsked:
    match name:
        case "stop":
            return StopAsked(heard=heard, at=heard.at)
        case "steer" | "queue" if argument:
            said = heard.model_copy(update={"text": argument})
            return UserSpoke(heard=said, policy=BusyPolicy(name))
        case "help":
            return CommandGiven(name=name, argument=argument, heard=heard, info=help_text())
        case "status":
            return CommandGiven(name=name, argument=argument, heard=heard, info=knowledge.process_info())
        case "model":
            return _model(heard, argument, knowledge)
        case _:
            return CommandGiven(name=name, argument=argument, heard=heard)


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
