"""An outbox's rules: what is owed to the chats of one account, and what is done about it. Pure.

A place (a chat, or a thread in it) has a queue; its first delivery is being posted,
part by part. One call per place at a time, `at_once` calls per account.

    the first delivery's part         what happens
    -------------------------------   ----------------------------------------------------
    not tried yet, or not taken       PartTried, call
    tried, and nobody knows           with an idempotency key that still holds: PartTried, call, `attempts` times
                                      with history: look; found: PartDelivered, else call again
                                      with neither: once more, or given up, as the settings say
    taken                             PartDelivered, then the next part, or DeliveryDone
    transient                         PartNotTaken, wait with backoff, again; given up after `attempts`
    needs a human                     PartNotTaken, an incident, again each minute
    rate limited                      PartNotTaken, wait as told; others go on
    moved                             PlaceMoved; all that waits for the place goes to the new one
    target gone                       TargetDied; all that waits for the place fails
    refused, with a file              PartNotTaken, and its text without the file
    refused                           DeliveryFailed, and a notice in its place

A live draft of the answer may stand in the chat already. The first post is made out of
it, and making it twice changes nothing. One that no answer comes of is removed.

A part that is delivered is never sent again: what is tried again is a part. After a
crash a part that was tried and has no outcome is one of which nobody knows.

Facts are recorded. Notes (`Note`) say what is true of this life alone: connected,
calls under way, waits; they are folded by the same `apply`, and a new life begins
without them.
"""

from datetime import datetime, timedelta
from hashlib import blake2b
from typing import assert_never

from actors.gateway.chunks import split
from actors.gateway.outbox_decision import (
    Call,
    Deciding,
    Decision,
    Look,
    ReportIncident,
    TellLetter,
    TellSession,
    TellTaken,
    Wait,
)
from actors.gateway.outbox_drafts import draft_of, draft_posted, drop_draft, removal_tried, remove_again
from actors.gateway.outbox_state import (
    Called,
    ConnectionChanged,
    Outbox,
    Owed,
    Returned,
    Under,
    WaitBegan,
    WaitEnded,
    ending_of,
)
from actors.gateway.outbox_waits import HUMAN_WAIT_S, LONG_WAIT_S, doubt_lasts, rate_limit_lasts
from actors.gateway.parts import OutboxRules, parts_of, without_file
from actors.gateway.sending import KEY as COMMAND_LINE
from messages import delivery as d
from messages.gateway import Say
from messages.ids import DeliveryId

PROBE_AFTER = timedelta(hours=6)
"""A dead place is tried again by what is owed to it so long after its death."""

NOTICE = "(An answer could not be delivered here: {why})"
NOTICE_REST = "(The rest of this answer could not be delivered: {why})"

LONGEST_WHY = 300


def decide(state: Outbox, heard: d.OutboxHeard, rules: OutboxRules) -> Decision:
    """Say what is now true and what should be done about it. Changes nothing."""
    draft = Deciding(state, rules, heard.at)
    match heard:
        case d.SayHeard():
            _take(draft, heard.say)
        case d.LetterDecided():
            _close_letter(draft, heard)
        case d.PostTaken():
            _taken(draft, heard)
        case d.PostFailed():
            _failed(draft, heard)
        case d.PostLookedUp():
            _looked_up(draft, heard)
        case d.WaitOver():
            draft.note(WaitEnded(heard.place))
        case d.PlatformConnected():
            draft.note(ConnectionChanged(connected=True))
            if not state.connected:
                remove_again(draft)
        case d.PlatformLost():
            draft.note(ConnectionChanged(connected=False))
        case d.PlaceSpoke():
            _revive(draft, heard.place)
        case d.DraftPosted():
            draft_posted(draft, heard)
        case d.DraftOver():
            if heard.delivery_id not in state.owed:
                drop_draft(draft, heard.delivery_id)
        case d.DraftRemovalTried():
            removal_tried(draft, heard)
        case _:
            assert_never(heard)
    _pump(draft)
    return Decision(tuple(draft.facts), tuple(draft.effects), draft.state)


# ------------------------------------------------------------------ taking


def _take(draft: Deciding, say: Say) -> None:
    ending = draft.state.ending(say.delivery_id)
    if ending is not None:
        draft.do(TellSession(say.session_key, ending))
        draft.do(TellTaken(say.delivery_id))
        return
    if say.delivery_id in draft.state.owed:
        draft.do(TellTaken(say.delivery_id))
        return
    place = now_at(draft.state, place_of(say))
    draft.say(
        d.DeliveryTaken(
            delivery_id=say.delivery_id,
            session_key=say.session_key,
            place=place,
            parts=parts_of(say, draft.rules),
            reply_to=say.reply_to,
            instead=say.instead,
            at=draft.at,
        )
    )
    draft.do(TellTaken(say.delivery_id))
    stands = draft.state.drafts.get(say.delivery_id)
    if stands is not None and stands.place != place:
        drop_draft(draft, say.delivery_id)  # the answer goes elsewhere
    owed = draft.state.owed[say.delivery_id]
    death = draft.state.dead.get(place)
    if not owed.taken.parts:
        silent = any(part.text.strip() for part in say.parts)
        _end(draft, owed, "silent" if silent else "empty")
    elif death is not None and draft.at - death.at < PROBE_AFTER:
        _give_up(draft, owed, f"nothing is sent to {place}: {death.why}", notice=False)


def _close_letter(draft: Deciding, decided: d.LetterDecided) -> None:
    """Note what an operator decided about a reply that was given up, and owe again what they want retried.

    Both are one append: a crash loses both or neither. A dead place is tried all the
    same: that it was healed is what a retry is for.
    """
    if decided.letter in draft.state.letters:
        draft.do(TellLetter(decided.token, written=False))
        return
    again = decided.again
    draft.say(
        d.DeliveryLetterClosed(
            letter=decided.letter,
            delivery_id=decided.delivery_id,
            how="dropped" if again is None else "retried",
            retried_as=None if again is None else again.delivery_id,
            by=decided.by,
            at=draft.at,
        )
    )
    if again is not None:
        draft.say(again.model_copy(update={"place": now_at(draft.state, again.place), "at": draft.at}))
    draft.do(TellLetter(decided.token, written=True))


def place_of(say: Say) -> d.Place:
    """Say where a reply goes within the account."""
    origin = say.origin
    chat = origin.chat or None
    return d.Place(chat=chat, thread=origin.thread or None, user=None if chat else origin.user)


def now_at(state: Outbox, place: d.Place) -> d.Place:
    """Return the place as it is called now."""
    for _ in range(len(state.moved)):
        moved = state.moved.get(place)
        if moved is None:
            break
        place = moved.new
    return place


# ------------------------------------------------------------------ trying


def _pump(draft: Deciding) -> None:
    """Begin what may begin: one call per place, `at_once` in all."""
    while True:
        state = draft.state
        free = state.connected and None not in state.waiting and len(state.under_way) < draft.rules.at_once
        if not free or not state.ready:
            return
        place = next(iter(state.ready))
        _go_on(draft, place, state.owed[state.queues[place][0]])


def _go_on(draft: Deciding, place: d.Place, owed: Owed) -> None:
    rules = draft.rules
    if owed.part > len(owed.taken.parts):
        _end(draft, owed, "erased")  # its session's history was deleted, and its texts with it
        return
    if owed.tried:  # by an earlier life, or the connection went: nobody knows
        draft.say(_unclear(owed, "interrupted", draft.at))
        owed = draft.state.owed[owed.taken.delivery_id]
    on_draft = draft_of(draft.state, owed) is not None and not rules.history
    harmless = (on_draft or _key_holds(owed, rules, draft.at)) and owed.unclear < rules.attempts
    if owed.unclear == 0 or harmless:
        _try(draft, place, owed, maybe_duplicate=False)
    elif rules.history:
        post = _post(draft.state, owed, owed.attempt, maybe_duplicate=False)
        draft.note(Called(place, Under(owed.taken.delivery_id, owed.part, owed.attempt)))
        draft.do(Look(post))
    elif owed.attempt == 0 or (rules.unknown_outcome == "send_again" and owed.unclear < 2):
        # Without an attempt of its own it is what an operator retries, who knows of the doubt.
        _try(draft, place, owed, maybe_duplicate=True)
    else:
        _give_up(draft, owed, "nobody knows whether it was posted")


def _key_holds(owed: Owed, rules: OutboxRules, at: datetime) -> bool:
    if not rules.idempotency_key:
        return False
    if rules.key_valid_s is None or owed.tried_at is None:
        return True
    return (at - owed.tried_at).total_seconds() < rules.key_valid_s


def _try(draft: Deciding, place: d.Place, owed: Owed, *, maybe_duplicate: bool) -> None:
    attempt, delivery_id = owed.attempt + 1, owed.taken.delivery_id
    draft.say(
        d.PartTried(
            delivery_id=delivery_id,
            part=owed.part,
            attempt=attempt,
            maybe_duplicate=maybe_duplicate,
            at=draft.at,
        )
    )
    draft.note(Called(place, Under(delivery_id, owed.part, attempt)))
    draft.do(Call(_post(draft.state, owed, attempt, maybe_duplicate=maybe_duplicate)))


def _post(state: Outbox, owed: Owed, attempt: int, *, maybe_duplicate: bool) -> d.Post:
    taken = owed.taken
    return d.Post(
        delivery_id=taken.delivery_id,
        part=owed.part,
        of=len(taken.parts),
        attempt=attempt,
        key=key_of(taken, owed.part),
        place=taken.place,
        body=taken.parts[owed.part - 1],
        reply_to=taken.reply_to if owed.part == 1 else None,
        maybe_duplicate=maybe_duplicate,
        instead=taken.instead,
        draft=draft_of(state, owed),
    )


def key_of(taken: d.DeliveryTaken, part: int) -> str:
    """Return the key of a part; one that may stand there from an earlier delivery keeps the key that it had."""
    if taken.doubt is not None and part == 1:
        return taken.doubt.key
    return key_of_part(taken.delivery_id, part)


def key_of_part(delivery_id: DeliveryId, part: int) -> str:
    """Name one part of one delivery towards the platform: 24 hexadecimal digits."""
    return blake2b(f"{delivery_id}\0{part}".encode(), digest_size=12).hexdigest()


# ------------------------------------------------------------------ outcomes


def _current(draft: Deciding, heard: d.PostTaken | d.PostFailed | d.PostLookedUp) -> Owed | None:
    """Note that a call came back; return the delivery if the answer is about the part that is next."""
    under = draft.state.under_way.get(heard.place)
    if under == Under(heard.delivery_id, heard.part, heard.attempt):
        draft.note(Returned(heard.place))
    owed = draft.state.owed.get(heard.delivery_id)
    return owed if owed is not None and owed.part == heard.part else None


def _taken(draft: Deciding, heard: d.PostTaken) -> None:
    owed = _current(draft, heard)  # of an earlier try, too: a receipt that comes late is welcome
    if owed is not None:
        _delivered(draft, owed, heard.receipt)


def _delivered(draft: Deciding, owed: Owed, receipt: str) -> None:
    delivery_id = owed.taken.delivery_id
    others = owed.doubt - 1  # tries of which nobody knows, besides the one that is known now
    twice = others > 0 and not _key_holds(owed, draft.rules, draft.at)
    draft.say(
        d.PartDelivered(
            delivery_id=delivery_id, part=owed.part, receipt=receipt, maybe_duplicate=twice, at=draft.at
        )
    )
    if owed.taken.place in draft.state.dead:
        draft.say(d.TargetRevived(place=owed.taken.place, at=draft.at))
    if twice:
        draft.do(ReportIncident("maybe_duplicate", f"{delivery_id}, part {owed.part}, to {owed.taken.place}"))
    owed = draft.state.owed[delivery_id]
    if owed.part > len(owed.taken.parts):
        _end(draft, owed, " ".join(owed.receipts))


def _failed(draft: Deciding, heard: d.PostFailed) -> None:
    owed = _current(draft, heard)
    if owed is None or owed.attempt != heard.attempt or not owed.tried:
        return  # a try that counts no more
    place, problem = owed.taken.place, heard.problem
    why = f"{problem.kind.value}: {problem.detail}".strip(": ")[:LONGEST_WHY]
    if problem.kind is d.ProblemKind.UNKNOWN:
        draft.say(_unclear(owed, why, draft.at))
        if problem.draft_gone and heard.delivery_id in draft.state.drafts:
            draft.say(d.DraftDropped(delivery_id=heard.delivery_id, at=draft.at))
        draft.do(ReportIncident("unclear", f"{owed.taken.delivery_id}, part {owed.part}, to {place}: {why}"))
        _wait(draft, place, doubt_lasts(draft.rules, owed.unclear, heard.chance))
        return
    instead = _without_file(draft.rules, owed, problem)
    draft.say(
        d.PartNotTaken(
            delivery_id=heard.delivery_id,
            part=heard.part,
            attempt=heard.attempt,
            problem=problem.model_copy(update={"detail": problem.detail[:LONGEST_WHY]}),
            counts=problem.kind is d.ProblemKind.TRANSIENT,
            text_instead=instead,
            at=draft.at,
        )
    )
    if instead is not None:
        return  # the chat is told; why it was refused stands in the journal
    if problem.moved_to is not None and problem.moved_to != place.chat:
        new = place.model_copy(update={"chat": problem.moved_to})
        draft.say(d.PlaceMoved(old=place, new=new, at=draft.at))
        return
    _follow(draft, draft.state.owed[heard.delivery_id], heard, why)


def _without_file(rules: OutboxRules, owed: Owed, problem: d.Problem) -> str | None:
    """Return what is posted instead when a part would be given up for its file; None when that is not so."""
    last = problem.kind is d.ProblemKind.TRANSIENT and owed.failures + 1 >= rules.attempts
    if (problem.kind is not d.ProblemKind.REFUSED and not last) or owed.taken.session_key == COMMAND_LINE:
        return None  # who sends from the command line is told, and has the file
    return without_file(owed.taken.parts[owed.part - 1], problem.detail[:LONGEST_WHY], rules)


def _follow(draft: Deciding, owed: Owed, heard: d.PostFailed, why: str) -> None:
    place, problem, backoff = owed.taken.place, heard.problem, draft.rules.backoff
    match problem.kind:
        case d.ProblemKind.TRANSIENT if owed.failures >= draft.rules.attempts:
            _give_up(draft, owed, f"given up after {owed.failures} tries: {why}")
        case d.ProblemKind.TRANSIENT:
            _wait(draft, place, max(backoff.wait(owed.failures, heard.chance), problem.retry_after_s or 0.0))
        case d.ProblemKind.NOT_CONNECTED:
            _wait(draft, place, backoff.wait(1, heard.chance))
        case d.ProblemKind.RATE_LIMITED:
            seconds = rate_limit_lasts(problem.retry_after_s, owed.attempt, draft.rules, heard.chance)
            if seconds > LONG_WAIT_S:
                draft.do(
                    ReportIncident("rate_limited", f"{place}: nothing can be posted for {seconds:.0f} s")
                )
            _wait(draft, None if problem.whole_account else place, seconds)
        case d.ProblemKind.NEEDS_HUMAN:
            draft.do(ReportIncident("needs_human", why))
            _wait(draft, None, HUMAN_WAIT_S)
        case d.ProblemKind.TARGET_GONE:
            _die(draft, place, why)
        case d.ProblemKind.REFUSED:
            _give_up(draft, owed, why)
        case d.ProblemKind.UNKNOWN:
            raise AssertionError("an unknown outcome was handled before")
        case _:
            assert_never(problem.kind)


def _looked_up(draft: Deciding, heard: d.PostLookedUp) -> None:
    owed = _current(draft, heard)
    if owed is None or owed.attempt != heard.attempt or owed.tried:
        return
    if heard.receipt is not None:
        _delivered(draft, owed, heard.receipt)
    elif heard.problem is not None:
        why = f"{heard.problem.kind.value}: {heard.problem.detail}"[:LONGEST_WHY]
        if heard.problem.kind is not d.ProblemKind.NOT_CONNECTED:
            draft.say(d.LookUpFailed(delivery_id=heard.delivery_id, part=heard.part, why=why, at=draft.at))
            owed = draft.state.owed[heard.delivery_id]
        if owed.failures >= draft.rules.attempts:
            _give_up(draft, owed, "nobody knows whether it was posted, and the history cannot be searched")
        else:
            seconds = draft.rules.backoff.wait(max(owed.failures, 1), heard.chance)
            _wait(draft, heard.place, max(seconds, heard.problem.retry_after_s or 0.0))
    elif owed.attempt > 0 and owed.unclear >= draft.rules.attempts:
        _give_up(draft, owed, "nobody knows whether it was posted")
    else:
        _try(draft, heard.place, owed, maybe_duplicate=True)


def _wait(draft: Deciding, place: d.Place | None, seconds: float) -> None:
    draft.note(WaitBegan(place))
    draft.do(Wait(place, max(seconds, 0.0)))


def _unclear(owed: Owed, why: str, at: datetime) -> d.PartUnclear:
    return d.PartUnclear(
        delivery_id=owed.taken.delivery_id, part=owed.part, attempt=owed.attempt, why=why, at=at
    )


# ------------------------------------------------------------------ ends


def _end(draft: Deciding, owed: Owed, receipt: str) -> None:
    taken = owed.taken
    drop_draft(draft, taken.delivery_id)  # of an answer that said nothing
    done = d.DeliveryDone(
        delivery_id=taken.delivery_id,
        session_key=taken.session_key,
        receipt=receipt,
        parts=len(taken.parts),
        attempts=owed.attempts,
        maybe_duplicate=owed.maybe_duplicate,
        taken_at=taken.at,
        at=draft.at,
    )
    draft.say(done)
    if taken.session_key is not None:
        draft.do(TellSession(taken.session_key, ending_of(done)))


def _give_up(draft: Deciding, owed: Owed, why: str, *, notice: bool = True) -> None:
    """End a delivery that cannot be made; say so to its session, to the operator and in the chat."""
    taken, posted = owed.taken, len(owed.receipts)
    drop_draft(draft, taken.delivery_id)
    failed = d.DeliveryFailed(
        delivery_id=taken.delivery_id,
        session_key=taken.session_key,
        why=why,
        posted=posted,
        parts=len(taken.parts),
        attempts=owed.attempts,
        taken_at=taken.at,
        at=draft.at,
    )
    draft.say(failed)
    draft.do(ReportIncident("dead_letter", f"{taken.delivery_id} to {taken.place}: {why}"))
    if taken.session_key is None:
        return  # a notice that cannot be delivered is not announced by another
    draft.do(TellSession(taken.session_key, ending_of(failed)))
    if notice:
        text = (NOTICE_REST if posted else NOTICE).format(why=why)
        chunks = split(text, draft.rules.limit, draft.rules.unit, draft.rules.render)
        draft.say(
            d.DeliveryTaken(
                delivery_id=DeliveryId(f"{taken.delivery_id}/undelivered"),
                session_key=None,
                place=taken.place,
                parts=tuple(d.PartText(text=chunk.text) for chunk in chunks),
                first=True,
                at=draft.at,
            )
        )


def _die(draft: Deciding, place: d.Place, why: str) -> None:
    draft.say(d.TargetDied(place=place, why=why, at=draft.at))
    for delivery_id in draft.state.queues.get(place, ()):
        _give_up(draft, draft.state.owed[delivery_id], why, notice=False)


def _revive(draft: Deciding, spoke: d.Place) -> None:
    """Somebody spoke: the chat is alive, and with it each of its threads, until one says otherwise."""
    chat = spoke.chat
    for place in [p for p in draft.state.dead if p == spoke or (chat is not None and p.chat == chat)]:
        draft.say(d.TargetRevived(place=place, at=draft.at))
