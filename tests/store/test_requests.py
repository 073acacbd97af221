"""The queue between the loops and the store's threads."""

import asyncio
from typing import Any

import pykka
import pytest

from store.journal import JournalUnavailableError
from store.requests import ReadOwed, RequestQueue, WorkWaits, answer_all


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


async def test_a_dead_server_is_noticed() -> None:
    queue: RequestQueue[Any] = RequestQueue()
    ref = Server.start()
    ref.stop()
    queue.open(ref)
    with pytest.raises(JournalUnavailableError, match="has stopped"):
        queue.put(ReadOwed([1]))
    assert len(queue) == 0
    assert queue.refusal == "the store has stopped"


async def test_answers_for_a_closed_loop_are_dropped() -> None:
    other = asyncio.new_event_loop()
    request = ReadOwed([1], loop=other)
    other.close()
    answer_all([(request, "too late")])
