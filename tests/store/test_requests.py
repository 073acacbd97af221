"""The queue between the loops and the store's threads."""

import asyncio
from typing import Any

import pykka
import pytest

from messages.ids import StreamId
from store.journal import JournalUnavailableError
from store.requests import MOST_WAITING, Append, ReadOwed, RequestQueue, WorkWaits, answer_all


class Server(pykka.ThreadingActor):
    """Never started: its mailbox is looked into."""


def told(server: Server) -> int:
    count = 0
    while not server.actor_inbox.empty():
        assert isinstance(server.actor_inbox.get().message, WorkWaits)
        count += 1
    return count


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def queue(server: Server) -> RequestQueue[ReadOwed]:
    queue: RequestQueue[ReadOwed] = RequestQueue()
    queue.open(server.actor_ref)
    return queue


async def test_a_server_is_told_once_until_it_has_taken_all(
    queue: RequestQueue[ReadOwed], server: Server
) -> None:
    requests = [ReadOwed([number]) for number in range(5)]
    for request in requests[:4]:
        queue.put(request)
    assert told(server) == 1
    assert queue.take(3) == (requests[:3], True)
    queue.put(requests[4])
    assert told(server) == 0  # it comes back by itself
    assert queue.take(3) == (requests[3:], False)
    assert queue.take(3) == ([], False)
    queue.put(requests[0])
    assert told(server) == 1


async def test_nothing_is_taken_before_it_is_open_and_after_it_is_closed(server: Server) -> None:
    queue: RequestQueue[Any] = RequestQueue()
    with pytest.raises(JournalUnavailableError, match="not open yet"):
        queue.put(ReadOwed([1]))
    queue.open(server.actor_ref)
    assert queue.refusal is None
    waiting = ReadOwed([1])
    queue.put(waiting)
    assert queue.close("closed for repairs") == [waiting]
    with pytest.raises(JournalUnavailableError, match="closed for repairs"):
        queue.put(ReadOwed([1]))


async def test_what_a_dying_server_leaves_waits_for_the_next_one(server: Server) -> None:
    queue: RequestQueue[Any] = RequestQueue()
    ref = Server.start()
    ref.stop()
    queue.open(ref)
    first, second = ReadOwed([1]), ReadOwed([2])
    queue.put(first)
    queue.pause("it fell")
    queue.put(second)
    assert (queue.refusal, queue.trouble) == (None, "it fell")
    queue.open(server.actor_ref)
    assert queue.trouble is None
    assert told(server) == 1
    assert queue.take(9) == ([first, second], False)


async def test_what_is_put_back_is_first_in_line_and_announced_by_a_reminder(
    queue: RequestQueue[ReadOwed], server: Server
) -> None:
    first, second = ReadOwed([1]), ReadOwed([2])
    queue.put(first)
    assert told(server) == 1
    queue.put_back(queue.take(1)[0], "no room")
    queue.put(second)
    assert (told(server), queue.trouble) == (0, "no room")
    queue.remind()
    assert told(server) == 1
    assert not queue.calm()  # they will tell
    assert queue.take(9)[0] == [first, second]
    assert queue.served()
    assert not queue.served()
    queue.remind()
    assert told(server) == 0


async def test_when_nothing_waits_that_could_tell_trouble_is_forgotten(
    queue: RequestQueue[ReadOwed], server: Server
) -> None:
    queue.put(ReadOwed([1]))
    queue.put_back(queue.take(1)[0], "no room")
    assert told(server) == 1
    assert len(queue.tired(0)) == 1
    assert queue.calm()
    assert queue.trouble is None
    queue.put(ReadOwed([2]))
    assert told(server) == 1


async def test_patience_ends_but_not_for_what_may_be_written(queue: RequestQueue[Any]) -> None:
    uncertain, certain = (Append(StreamId("s"), 0, (), owing=False) for _ in range(2))
    uncertain.tries = 1
    for request in (uncertain, certain):
        queue.put(request)
    assert queue.tired(1) == []
    assert queue.tired(1) == [certain]
    assert queue.take(9)[0] == [uncertain]


async def test_a_queue_that_nobody_serves_is_bounded(queue: RequestQueue[Any]) -> None:
    queue.pause("it fell")
    for number in range(MOST_WAITING):
        queue.put(ReadOwed([number]))
    with pytest.raises(JournalUnavailableError, match="it fell, and 10000 requests wait"):
        queue.put(ReadOwed([1]))


async def test_answers_for_a_closed_loop_are_dropped() -> None:
    other = asyncio.new_event_loop()
    request = ReadOwed([1], loop=other)
    other.close()
    answer_all([(request, "too late")])
