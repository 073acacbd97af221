"""Questions for a yes that are asked in chats: one request, one call, these arguments, these people. Pure.

A request has an id of its own, made of the turn, the call and its exact arguments;
the arguments of a recorded call never change. A button or `/approve ID` decides that
request and no other; whoever may not decide is told so, and nothing runs; a request
that is over stays over. No answer in time is a no. What cannot be shown whole in a
chat cannot be approved there.
"""

import json
import unicodedata
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b

from actors.session import facts as f
from actors.session import words
from actors.session.decision import Draft
from actors.session.effects import AskConfirmation
from actors.session.quoting import named, quoted
from actors.session.rules import Rules
from actors.session.state import Call, Running
from messages.blocks import ToolStatus
from messages.gateway import Author, Button, ChatType, MessageReceived, Origin, Role
from messages.ids import SessionKey
from messages.tool import PreparedCall

MOST_SHOWN = 1500
"""Characters of a call that a chat is shown; a longer one is decided where there is room for it."""

_ALPHABET = "abcdefghjkmnpqrstvwxyz23456789"
_ID_LENGTH = 8
MOST_ROUTES = 10_000


class ApprovalBook:
    """Which session asked what: the button may be pressed by somebody whose own session is another."""

    def __init__(self) -> None:
        self._asked: OrderedDict[str, SessionKey] = OrderedDict()
        self._awaited: set[SessionKey] = set()

    def note(self, approval: str, key: SessionKey) -> None:
        """Remember who asked; the oldest of very many are forgotten."""
        self._asked[approval] = key
        self._asked.move_to_end(approval)
        while len(self._asked) > MOST_ROUTES:
            self._asked.popitem(last=False)

    def awaits(self, keys: Iterable[SessionKey]) -> None:
        """After a start: these sessions may have asked something, and have not been read yet."""
        self._awaited.update(keys)

    def read(self, key: SessionKey) -> None:
        """A session has been read: what it asks is noted."""
        self._awaited.discard(key)

    @property
    def complete(self) -> bool:
        """Whether all that was asked before the start is known."""
        return not self._awaited

    def session_of(self, argument: str) -> SessionKey | None:
        """Return whose request the argument of /approve or /deny names."""
        return self._asked.get(id_in(argument))


def id_in(argument: str) -> str:
    """Read the id that follows /approve or /deny; empty when none does."""
    parts = argument.split()
    return parts[0].strip("`#<>").lower() if parts else ""


def approval_id(key: SessionKey, turn: int, call: PreparedCall, at: datetime) -> str:
    """Name a request after everything that it is about."""
    about = json.dumps([key, turn, call.call_id, call.name, call.arguments, at.isoformat()])
    number = int.from_bytes(blake2b(about.encode("utf-8", "surrogatepass"), digest_size=8).digest())
    letters = []
    for _ in range(_ID_LENGTH):
        number, rest = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[rest])
    return "".join(letters)


# ------------------------------------------------------------------ asking


def ask_for(draft: Draft, rules: Rules, call: Call, at: datetime) -> None:
    """Let a call wait for a yes; in a chat, ask for it there."""
    run, prepared = draft.run, call.prepared
    in_chat = not run.can_confirm
    approval = approval_id(draft.state.key, run.turn, prepared, at) if in_chat else ""
    body = shown(prepared) if in_chat else ""
    draft.say(
        f.ConfirmationWanted(
            turn=run.turn,
            call_id=prepared.call_id,
            approval=approval,
            in_chat=body is not None,
            expires_at=at + timedelta(seconds=rules.approval_timeout_s),
            at=at,
        )
    )
    draft.do(AskConfirmation(run.turn, prepared, approval, rules.approval_timeout_s))
    if in_chat:
        _question(draft, rules, prepared, approval, body, at)


def _question(
    draft: Draft, rules: Rules, call: PreparedCall, approval: str, body: str | None, at: datetime
) -> None:
    run = draft.run
    deny = Button(label="Deny", command=f"/deny {approval}", style="bad")
    text = words.APPROVAL_ASKED.format(
        name=call.name, who=_who(rules, run), minutes=_minutes(rules.approval_timeout_s), id=approval
    )
    if body is None:
        text = f"{text}\n\n{words.APPROVAL_TOO_LONG.format(characters=len(call.arguments))}"
        buttons: tuple[Button, ...] = (deny,)
    else:
        text = f"{text}\n\n{body}"
        buttons = (Button(label="Approve", command=f"/approve {approval}", style="good"), deny)
    reply_to = run.message_ids[0] if run.message_ids else None
    draft.remark(text, at, run.origin, buttons=buttons, reply_to=reply_to, status="approval")


def can_be_asked(rules: Rules, run: Running) -> bool:
    """Say whether there is anybody who can be asked: a surface that says so, or a chat."""
    return run.can_confirm or run.origin.platform not in rules.pulled


def _who(rules: Rules, run: Running) -> str:
    if run.origin.chat_type is ChatType.DM:
        return words.APPROVER_DM
    return words.APPROVERS[rules.at(run.origin).approvers]


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds"


def shown(call: PreparedCall) -> str | None:
    """Return a call as a chat shows it, every character of it visible; None when it is too long for that."""
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = None
    if isinstance(arguments, dict) and arguments:
        lines = []
        for name, value in arguments.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            lines.append(f"`{_bare(name)}`\n{_fenced(text)}")
        body = "\n".join(lines)
    else:
        body = _fenced(call.arguments)
    return body if len(body) <= MOST_SHOWN else None


def _fenced(text: str) -> str:
    text = _bare(text, keep="\n")
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def _bare(text: str, keep: str = "") -> str:
    """Show by its number what would show nothing, or change how the rest is read."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in keep or _shows(c) else f"\\u{{{ord(c):x}}}" for c in text)


def _shows(character: str) -> bool:
    """Say whether a character is seen as itself: spaces other than the one, and all that is invisible, are not."""
    if character == " ":
        return True
    if character in "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0" or "\ufe00" <= character <= "\ufe0f":
        return False
    return unicodedata.category(character)[0] not in "CZ" and not ("\U000e0000" <= character <= "\U000e0fff")


# ------------------------------------------------------------------ deciding


def asking(run: Running | None) -> tuple[Call, ...]:
    """Return the calls that wait for a yes from the chat."""
    if run is None or run.stopping:
        return ()
    return tuple(call for call in run.calls if call.phase == "asking" and call.approval)


def find(draft: Draft, argument: str) -> Call | str:
    """Return the call that the argument of /approve or /deny means, or why there is none."""
    waiting = asking(draft.running)
    wanted = id_in(argument)
    if not wanted:
        if len(waiting) == 1:
            return waiting[0]
        return _several(waiting) if waiting else words.NOTHING_TO_APPROVE
    for call in waiting:
        if call.approval == wanted:
            return call
    for approval, outcome in reversed(draft.state.decided):
        if approval == wanted:
            return words.APPROVAL_OVER[outcome]
    return words.APPROVAL_UNKNOWN.format(id=quoted(wanted, 20))


def _several(waiting: Sequence[Call]) -> str:
    listed = "\n".join(f"- `{call.approval}`: {call.prepared.name}" for call in waiting)
    return f"{words.SEVERAL_TO_APPROVE}\n{listed}"


def objection(rules: Rules, run: Running, heard: MessageReceived) -> str:
    """Return why this person may not decide here; empty when they may."""
    if not same_place(run.origin, heard.origin):
        return words.APPROVAL_ELSEWHERE
    if _may_decide(rules, run, heard.author):
        return ""
    return words.APPROVAL_NOT_YOURS.format(who=_who(rules, run))


def same_place(one: Origin, other: Origin) -> bool:
    """Say whether two messages were said in the same chat and thread of the same account."""
    if (one.platform, one.account, one.chat_type) != (other.platform, other.account, other.chat_type):
        return False
    if one.chat or other.chat:
        return (one.chat, one.thread) == (other.chat, other.thread)
    return one.user == other.user


def _may_decide(rules: Rules, run: Running, author: Author) -> bool:
    if author.bot:
        return False
    if author.role in (Role.OWNER, Role.ADMIN):
        return True
    if run.origin.chat_type is ChatType.DM:
        return author.id in run.speakers
    match rules.at(run.origin).approvers:
        case "admins":
            return False
        case "requester":
            return author.id in run.speakers
        case "anyone":
            return True


def settle(draft: Draft, call: Call, author: Author, *, yes: bool, at: datetime) -> None:
    """Record what somebody who may decide has decided. The caller lets the tools go on."""
    by = named(author)
    draft.say(
        f.ConfirmationSettled(turn=draft.run.turn, call_id=call.prepared.call_id, yes=yes, by=by, at=at)
    )
    if not yes:
        draft.end_call(call, ToolStatus.REFUSED, words.CALL_DECLINED.format(by=by), at)


def overdue(draft: Draft, rules: Rules, call: Call, at: datetime) -> None:
    """Record that nobody answered, which is a no. The caller lets the tools go on."""
    run, prepared = draft.run, call.prepared
    minutes = _minutes(rules.approval_timeout_s)
    draft.say(
        f.ConfirmationSettled(
            turn=run.turn, call_id=prepared.call_id, yes=False, by="nobody", timed_out=True, at=at
        )
    )
    draft.end_call(call, ToolStatus.REFUSED, words.CALL_TIMED_OUT.format(minutes=minutes), at)
    if call.approval:
        text = words.APPROVAL_EXPIRED.format(name=prepared.name, id=call.approval, minutes=minutes)
        draft.remark(text, at, run.origin, status="approval")


def ask_again(draft: Draft, rules: Rules, call: Call, at: datetime) -> None:
    """Wait on for a yes after a restart: as long as was left of the time, and no longer."""
    expires_at = call.expires_at or at + timedelta(seconds=rules.approval_timeout_s)
    wait_s = max((expires_at - at).total_seconds(), 0.0)
    draft.do(AskConfirmation(draft.run.turn, call.prepared, call.approval, wait_s))
