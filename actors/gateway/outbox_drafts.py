"""An outbox's rules for live drafts: a draft becomes the answer's first post, or is taken away. Pure."""

from actors.gateway.outbox_decision import Deciding, RemoveDraft
from actors.gateway.outbox_state import Outbox, Owed, Removing
from messages import delivery as d
from messages.gateway import SayingSucceeded
from messages.ids import DeliveryId

REMOVED_LATER = frozenset({d.ProblemKind.TRANSIENT, d.ProblemKind.RATE_LIMITED, d.ProblemKind.UNKNOWN})


def draft_posted(draft: Deciding, posted: d.DraftPosted) -> None:
    """Remember a draft that stands now; remove it when its answer was quicker."""
    stands = draft.state.drafts.get(posted.delivery_id)
    owed, ending = draft.state.owed.get(posted.delivery_id), draft.state.ending(posted.delivery_id)
    answers = owed.receipts if owed is not None else ()
    if isinstance(ending, SayingSucceeded):
        answers = tuple(ending.receipt.split())
    if posted.receipt in answers or (stands is not None and stands.receipt == posted.receipt):
        return  # taken up again in a new life, or the answer by now
    if ending is not None or (owed is not None and (owed.attempts > 0 or owed.taken.place != posted.place)):
        _remove(draft, posted.place, posted.receipt)  # the answer was quicker
        return
    if stands is not None:
        _remove(draft, stands.place, stands.receipt)
    draft.say(
        d.DraftStands(delivery_id=posted.delivery_id, place=posted.place, receipt=posted.receipt, at=draft.at)
    )


def drop_draft(draft: Deciding, delivery_id: DeliveryId) -> None:
    """Have a draft removed that no answer is made out of."""
    stands = draft.state.drafts.get(delivery_id)
    if stands is not None:
        _remove(draft, stands.place, stands.receipt)


def _remove(draft: Deciding, place: d.Place, receipt: str) -> None:
    if (place, receipt) not in draft.state.removals:
        draft.note(Removing(place, receipt, 0))
        draft.do(RemoveDraft(place, receipt))


def remove_again(draft: Deciding) -> None:
    """Have removed what could not be without a connection, or by an earlier life."""
    for place, receipt in draft.state.removals:
        draft.do(RemoveDraft(place, receipt))
    for delivery_id in draft.state.drafts:
        if draft.state.ending(delivery_id) is not None:
            drop_draft(draft, delivery_id)


def removal_tried(draft: Deciding, heard: d.DraftRemovalTried) -> None:
    """A draft that cannot be removed now is removed later: it would stand there for ever."""
    place, receipt, problem = heard.place, heard.receipt, heard.problem
    if (place, receipt) not in draft.state.removals:
        return
    if problem is not None and problem.kind is d.ProblemKind.NOT_CONNECTED:
        return  # until there is a connection
    failures = draft.state.removals[place, receipt] + 1
    if problem is not None and problem.kind in REMOVED_LATER and failures < draft.rules.attempts:
        wait = max(draft.rules.backoff.wait(failures, heard.chance), problem.retry_after_s or 0.0)
        draft.note(Removing(place, receipt, failures))
        draft.do(RemoveDraft(place, receipt, wait))
        return
    draft.note(Removing(place, receipt, None))
    for stands in tuple(draft.state.drafts.values()):
        if (stands.place, stands.receipt) == (place, receipt):
            draft.say(d.DraftDropped(delivery_id=stands.delivery_id, at=draft.at))


def draft_of(state: Outbox, owed: Owed) -> str | None:
    """Return the draft that the part which is next is made out of."""
    stands = state.drafts.get(owed.taken.delivery_id) if owed.part == 1 else None
    if stands is None or stands.place != owed.taken.place or (stands.place, stands.receipt) in state.removals:
        return None
    return stands.receipt
