"""The webhook over real sockets: what a caller gets, what is handed in, where answers go."""

import asyncio
import gzip
import json
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from actors.gateway.edge import EdgeContext, EdgeError
from actors.gateway.platforms.webhook import PLATFORM
from actors.gateway.platforms.webhook.answers import problem_of
from actors.gateway.platforms.webhook.edge import WebhookEdge
from messages.delivery import DraftRemoved, Place, ProblemKind
from messages.gateway import Acceptance
from tests.fakes.clock import ManualClock
from tests.platforms.webhook.service import (
    SECRET,
    Desk,
    hex_of,
    listening,
    options,
    post,
    standard_signature,
    taking_answers,
)


async def test_a_call_is_acknowledged_only_when_it_is_durable() -> None:
    desk = Desk()
    desk.open.clear()
    async with listening(options(main={}), desk) as caller:
        call = asyncio.create_task(caller.calls(headers={"X-GitHub-Delivery": "d1"}))
        await desk.hears()
        assert not call.done()
        desk.open.set()
        status, said, headers = await call
    assert (status, said) == (202, {"status": "accepted", "message_id": "d1"})
    assert headers["Cache-Control"] == "no-store"
    assert desk.heard[0].text == '{"text": "hi"}'


async def test_a_retry_is_heard_as_the_same_message() -> None:
    async with listening(options(main={})) as caller:
        first = await caller.calls(headers={"X-GitHub-Delivery": "d1"})
        again = await caller.calls(headers={"X-GitHub-Delivery": "d1"})
        replayed = await caller.calls(headers={"X-GitHub-Delivery": "another"})
        nameless = await caller.calls()
    assert [status for status, _, _ in (first, again, replayed, nameless)] == [202, 200, 200, 200]
    assert {m.message_id for m in caller.desk.heard} == {"d1"}


@pytest.mark.parametrize(
    ("name", "method", "signed", "status"),
    [
        ("none", "POST", True, 404),
        ("main", "GET", True, 405),
        ("main", "PUT", True, 405),
        ("main", "POST", False, 401),
        ("%2e%2e%2fx", "POST", True, 404),
        ("a/b", "POST", True, 404),
    ],
)
async def test_what_is_not_a_signed_call_of_a_route_is_refused(
    name: str, method: str, signed: bool, status: int
) -> None:
    async with listening(options(main={})) as caller:
        found, said, _ = await caller.calls(name, method=method, signed=signed)
    assert found == status
    assert SECRET not in json.dumps(said)
    assert caller.desk.heard == []


async def test_X13_raw_bytes_in_a_signature_are_a_401_on_the_wire() -> None:
    async with listening(options(main={}, token={"signature": "token"})) as caller:
        host, port = caller.edge.url.removeprefix("http://").split(":")
        for path, header in (
            ("main", b"X-Signature: sha256=\xe9\xff"),
            ("main", b"X-Signature: \xe2\x80\x99"),
            ("token", b"Authorization: Bearer \xff\xfe"),
            ("token", b"Authorization: Bearer \xe2\x80\x99"),
        ):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(
                b"POST /hooks/%b HTTP/1.1\r\nHost: x\r\n%b\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
                % (path.encode(), header)
            )
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            assert answer.split(b" ")[1] == b"401", answer
    assert caller.desk.heard == []
    assert caller.edge.refused == 4


async def test_guessing_a_secret_is_slowed_down_and_right_calls_are_not() -> None:
    async with listening(options(main={})) as caller:
        statuses = [(await caller.calls(signed=False))[0] for _ in range(35)]
        assert statuses == [401] * 30 + [429] * 5
        assert (await caller.calls())[0] == 202  # from the same address, as behind a proxy
        await caller.clock.advance(60)
        assert (await caller.calls(signed=False))[0] == 401


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "x-odd", "GZIP, gzip"])
@pytest.mark.parametrize("body", [b"{}", gzip.compress(b" " * 50_000_000)])
async def test_a_packed_body_is_refused_and_never_unpacked(encoding: str, body: bytes) -> None:
    async with listening(options(main={})) as caller:
        assert (await caller.calls(body=body, headers={"Content-Encoding": encoding}))[0] == 415
        assert (await caller.calls())[0] == 202


async def test_a_route_has_a_rate_and_says_when_to_come_again() -> None:
    async with listening(options(main={"per_minute": 2}, other={"per_minute": 2})) as caller:
        statuses = [(await caller.calls(payload={"n": n}))[0] for n in range(3)]
        _, _, headers = await caller.calls(payload={"n": 4})
        assert statuses == [202, 202, 429]
        assert headers["Retry-After"] == "30"
        assert (await caller.calls("other"))[0] == 202
        await caller.clock.advance(30)
        assert (await caller.calls(payload={"n": 5}))[0] == 202
    assert len(caller.desk.heard) == 4


async def test_a_body_that_is_too_large_is_refused_with_and_without_its_length() -> None:
    async with listening(options({"body_bytes": 2000}, main={})) as caller:
        assert (await caller.calls(body=b"x" * 2001))[0] == 413

        async def pieces() -> AsyncIterator[bytes]:
            yield b"x" * 3000

        async with (
            aiohttp.ClientSession() as http,
            http.post(f"{caller.edge.url}/hooks/main", data=pieces()) as response,
        ):
            assert response.status == 413
        assert (await caller.calls())[0] == 202


@pytest.mark.parametrize("body", [b"{", b"\xff{", b"[" * 60_000, b'{"a": '])
async def test_a_signed_body_that_cannot_be_read_is_a_400(body: bytes) -> None:
    async with listening(options(main={})) as caller:
        assert (await caller.calls(body=body))[0] == 400
        assert caller.edge.refused == 1
    assert caller.desk.heard == []


async def test_X13_whatever_a_payload_is_there_is_no_500() -> None:
    odd = [b"null", b"1e400", b'"\\ud800"', b"[]", b"NaN", b"\x00", b"", b'{"type": {"a": []}, "action": 7}']
    async with listening(options(main={"session": "{payload.type}"})) as caller:
        for body in odd:
            assert (await caller.calls(body=body))[0] in {200, 202, 400}, body


async def test_an_event_that_is_not_wanted_is_acknowledged_and_not_handed_in() -> None:
    async with listening(options(main={"events": ["push"]})) as caller:
        status, said, _ = await caller.calls(headers={"X-GitHub-Event": "ping"})
        assert (status, said["status"]) == (200, "ignored")
        assert (await caller.calls(headers={"X-GitHub-Event": "push"}))[0] == 202
    assert len(caller.desk.heard) == 1


async def test_a_refusal_and_a_desk_that_takes_too_long_can_be_tried_again() -> None:
    async with listening(options(main={})) as caller:
        caller.desk.acceptance = Acceptance.REFUSED
        status, said, headers = await caller.calls()
        assert (status, said["error"]) == (429, "too busy")
        assert int(headers["Retry-After"]) > 0
        caller.desk.error = EdgeError(ProblemKind.TRANSIENT, "not taken in time")
        assert (await caller.calls())[0] == 503
        caller.desk.error = RuntimeError("a mistake")
        assert (await caller.calls())[0] == 503
        caller.desk.error, caller.desk.acceptance = None, Acceptance.OVERHEARD
        status, said, _ = await caller.calls()  # left alone at the door: it is not done
        assert (status, said["status"]) == (429, "refused")


# ---------------------------------------------------------------------- callers that wait


async def test_a_caller_that_waits_gets_the_answer() -> None:
    async with listening(options(main={"sync": True})) as caller:
        call = asyncio.create_task(caller.calls(headers={"X-GitHub-Delivery": "d1"}))
        await caller.desk.hears()
        assert await caller.edge.say(post("Hello!", reply_to="d1")) == "response:d1"
        status, said, _ = await call
    assert (status, said) == (200, {"status": "accepted", "message_id": "d1", "text": "Hello!"})


async def test_an_answer_in_parts_is_one_answer() -> None:
    async with listening(options(main={"sync": True})) as caller:
        call = asyncio.create_task(caller.calls(headers={"X-GitHub-Delivery": "d1"}))
        await caller.desk.hears()
        for n, text in enumerate(("one", "two", "three"), start=1):
            await caller.edge.say(post(text, reply_to="d1", part=n, of=3))
        assert (await call)[1]["text"] == "one\n\ntwo\n\nthree"


async def test_a_retry_gets_the_same_answer_while_it_is_made_and_after() -> None:
    async with listening(options(main={"sync": True})) as caller:
        both = [asyncio.create_task(caller.calls(headers={"X-GitHub-Delivery": "d1"})) for _ in range(2)]
        await caller.desk.hears(2)
        await caller.edge.say(post("Hello!", reply_to="d1"))
        assert [(await call)[1]["text"] for call in both] == ["Hello!", "Hello!"]
        status, said, _ = await caller.calls(headers={"X-GitHub-Delivery": "d1"})
        assert (status, said["status"], said["text"]) == (200, "duplicate", "Hello!")


async def test_messages_answered_together_are_answered_to_each_and_later_ones_are_not() -> None:
    async with listening(options(main={"sync": True}, other={"sync": True})) as caller:
        calls = []
        for n, name in enumerate(("main", "main", "other", "main")):
            calls.append(
                asyncio.create_task(caller.calls(name, {"n": n}, headers={"X-GitHub-Delivery": f"d{n}"}))
            )
            await caller.desk.hears(n + 1)
        await caller.edge.say(post("For both.", reply_to="d1"))
        assert [(await call)[1]["text"] for call in calls[:2]] == ["For both.", "For both."]
        assert not calls[2].done()
        assert not calls[3].done()
        await caller.edge.say(post("Other.", chat="other", reply_to="d2"))
        await caller.edge.say(post("Last.", reply_to="d3"))
        assert [(await call)[1]["text"] for call in calls[2:]] == ["Other.", "Last."]


@pytest.mark.parametrize(
    ("kind", "status"), [("rate_limited", 429), ("no_model", 503), ("refused", 502), ("stopped", 502)]
)
async def test_what_is_said_instead_of_an_answer_is_a_failure_now_and_when_asked_again(
    kind: str, status: int
) -> None:
    async with listening(options(main={"sync": True})) as caller:
        call = asyncio.create_task(caller.calls(headers={"X-GitHub-Delivery": "d1"}))
        await caller.desk.hears()
        await caller.edge.say(post("There is no answer.", reply_to="d1", instead=kind))
        for answered, said in (
            (await call)[:2],
            (await caller.calls(headers={"X-GitHub-Delivery": "d1"}))[:2],
        ):
            assert answered == status
            assert (said["status"], said["code"], said["error"]) == ("failed", kind, "There is no answer.")
            assert "text" not in said


async def test_a_question_is_no_answer_and_the_answer_is_there_for_who_asks_again() -> None:
    async with listening(options(main={"sync": True})) as caller:
        call = asyncio.create_task(caller.calls(headers={"X-GitHub-Delivery": "d1"}))
        await caller.desk.hears()
        await caller.edge.say(post("May I?", reply_to="d1", instead="approval"))
        status, said, _ = await call
        assert (status, said["status"], said["code"], said["text"]) == (202, "waiting", "approval", "May I?")
        again = asyncio.create_task(caller.calls(headers={"X-GitHub-Delivery": "d1"}))
        await caller.desk.hears(2)
        await caller.edge.say(post("Done.", reply_to="d1"))
        assert (await again)[1]["text"] == "Done."


async def test_a_caller_does_not_wait_for_ever_and_the_answer_goes_to_the_address() -> None:
    async with taking_answers() as (url, got):
        slow = {"sync": True, "sync_timeout_s": 0.05, "answer_url": url}
        async with listening(options(main=slow)) as caller:
            status, said, _ = await caller.calls(headers={"X-GitHub-Delivery": "d1"})
            assert (status, said["status"]) == (202, "waiting")
            await caller.edge.say(post("Late.", reply_to="d1"))
    assert json.loads(got[0][1])["text"] == "Late."


async def test_a_caller_that_went_away_leaves_the_answer_unknown_or_in_the_history() -> None:
    async with listening(options(main={"sync": True})) as caller:
        call = asyncio.create_task(caller.calls(headers={"X-GitHub-Delivery": "d1"}))
        await caller.desk.hears()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        outcome = (
            await asyncio.gather(caller.edge.say(post("Hello?", reply_to="d1")), return_exceptions=True)
        )[0]
    if isinstance(outcome, EdgeError):
        assert outcome.problem.kind is ProblemKind.UNKNOWN
    else:
        assert outcome in {"history", "response:d1"}


async def test_a_stop_ends_within_a_second_or_two_and_tells_who_waits() -> None:
    async with listening(options(main={"sync": True})) as caller:
        call = asyncio.create_task(caller.calls(headers={"X-GitHub-Delivery": "d1"}))
        await caller.desk.hears()
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 5
    outcome = (await asyncio.gather(call, return_exceptions=True))[0]
    assert isinstance(outcome, aiohttp.ClientError) or (
        isinstance(outcome, tuple) and outcome[1]["status"] == "waiting"
    )
    with pytest.raises(EdgeError) as refused:
        await caller.edge.say(post())
    assert refused.value.problem.kind is ProblemKind.NOT_CONNECTED


# ---------------------------------------------------------------------- answers


async def test_an_answer_is_posted_signed_and_with_its_key() -> None:
    thread = Place(chat="main", thread="t1")
    async with (
        taking_answers(lambda _: web.json_response({"id": 17})) as (url, got),
        listening(options(main={"answer_url": url})) as caller,
    ):
        receipt = await caller.edge.say(
            post("Grüße \U0001f600", place=thread, reply_to="d1", maybe_duplicate=True)
        )
        stamp = int(caller.clock.now().timestamp())
    headers, body = got[0]
    assert receipt == "17"
    assert headers["Idempotency-Key"] == headers["webhook-id"] == "ab" * 12
    assert headers["webhook-signature"] == standard_signature("ab" * 12, stamp, body)
    assert json.loads(body) == {
        "route": "main",
        "account": "main",
        "session": "t1",
        "delivery": "d1",
        "part": 1,
        "of": 1,
        "text": "Grüße \U0001f600",
        "reply_to": "d1",
        "maybe_duplicate": True,
        "code": None,
    }


async def test_without_an_address_an_answer_stays_in_the_history() -> None:
    async with listening(options(main={})) as caller:
        assert await caller.edge.say(post()) == "history"
        assert await caller.edge.find(post()) is None
        assert await caller.edge.show(DraftRemoved(place=Place(chat="main"), receipt="x")) is None
        with pytest.raises(EdgeError) as gone:
            await caller.edge.say(post(chat="none"))
    assert gone.value.problem.kind is ProblemKind.TARGET_GONE


KINDS = {
    200: None,
    202: None,
    204: None,
    301: ProblemKind.NEEDS_HUMAN,
    307: ProblemKind.NEEDS_HUMAN,
    400: ProblemKind.REFUSED,
    401: ProblemKind.NEEDS_HUMAN,
    403: ProblemKind.NEEDS_HUMAN,
    404: ProblemKind.NEEDS_HUMAN,
    408: ProblemKind.TRANSIENT,
    409: ProblemKind.TRANSIENT,
    410: ProblemKind.TARGET_GONE,
    413: ProblemKind.REFUSED,
    422: ProblemKind.REFUSED,
    429: ProblemKind.RATE_LIMITED,
    500: ProblemKind.UNKNOWN,
    502: ProblemKind.UNKNOWN,
    503: ProblemKind.TRANSIENT,
    504: ProblemKind.UNKNOWN,
    599: ProblemKind.UNKNOWN,
    100: ProblemKind.REFUSED,
}


@pytest.mark.parametrize(("status", "kind"), KINDS.items())
def test_every_status_means_something(status: int, kind: ProblemKind | None) -> None:
    problem = problem_of(status)
    assert (problem.problem.kind if problem else None) is kind


async def test_the_other_sides_failures_are_told_apart() -> None:
    answers = {1: web.Response(status=429, headers={"Retry-After": "7"}), 2: web.Response(status=401)}
    async with (
        taking_answers(lambda n: answers.get(n, web.Response(status=500))) as (url, got),
        listening(options(main={"answer_url": url})) as caller,
    ):
        found = []
        for _ in range(3):
            with pytest.raises(EdgeError) as failed:
                await caller.edge.say(post())
            found.append(failed.value.problem)
    assert [p.kind for p in found] == [ProblemKind.RATE_LIMITED, ProblemKind.NEEDS_HUMAN, ProblemKind.UNKNOWN]
    assert found[0].retry_after_s == 7
    assert "answer_secret" in found[1].detail
    assert len(got) == 3  # nothing is tried again here


async def test_nobody_there_is_not_posted_and_a_broken_connection_is_unknown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    gone = {"answer_url": f"http://127.0.0.1:{port}/"}

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.close()

    rude = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    broken = {"answer_url": f"http://127.0.0.1:{rude.sockets[0].getsockname()[1]}/secret-path"}

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)
        writer.close()

    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    mute = {"answer_url": f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/"}
    async with listening(options({"answer_timeout_s": 0.2}, gone=gone, broken=broken, mute=mute)) as caller:
        kinds = []
        for chat in ("gone", "broken", "mute"):
            with pytest.raises(EdgeError) as failed:
                await caller.edge.say(post(chat=chat))
            kinds.append(failed.value.problem.kind)
            assert "secret-path" not in failed.value.problem.detail
    for running in (rude, silent):
        running.close()
        await running.wait_closed()
    assert kinds == [ProblemKind.TRANSIENT, ProblemKind.UNKNOWN, ProblemKind.UNKNOWN]


async def test_posting_and_checking_without_a_listener() -> None:
    assert PLATFORM.standalone is not None
    assert PLATFORM.examine is not None
    context = EdgeContext("webhook", "main", ManualClock())
    async with taking_answers() as (url, got):
        opts = options(main={"answer_url": url}, mute={})
        assert await PLATFORM.standalone(opts, post()) == "ab" * 12
        findings = await PLATFORM.examine(opts, context)
        assert [finding.ok for finding in findings] == [True, True, True]
        with pytest.raises(EdgeError):
            await PLATFORM.standalone(opts, post(chat="mute"))
        assert len(got) == 1  # the check posts nothing
    findings = await PLATFORM.examine(options(main={"answer_url": url}), context)
    assert [(f.ok, bool(f.remedy)) for f in findings] == [(True, False), (False, True)]


# ---------------------------------------------------------------------- the listener


async def test_a_port_in_use_is_said_and_can_be_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        opts = options({"listen": f"127.0.0.1:{taken.getsockname()[1]}"}, main={})
        with pytest.raises(EdgeError) as failed:
            async with listening(opts):
                pass
    assert failed.value.problem.kind is ProblemKind.TRANSIENT
    assert "Another program has it" in failed.value.problem.detail
    with pytest.raises(EdgeError) as failed:
        async with listening(options({"listen": "192.0.2.1:9"}, main={})):
            pass
    assert failed.value.problem.kind is ProblemKind.NEEDS_HUMAN


async def test_the_probe_calls_the_listener() -> None:
    async with listening(options(main={})) as caller:
        await caller.edge.probe()
    with pytest.raises(EdgeError):
        await caller.edge.probe()


async def test_a_token_route_and_slack_signatures_on_the_wire() -> None:
    routes = {"token": {"signature": "token", "secret": "schlüssel-im-topf"}, "slack": {"signature": "slack"}}
    async with listening(options(**routes)) as caller:
        token = {"Authorization": "Bearer schlüssel-im-topf"}
        assert (await caller.calls("token", headers=token, signed=False))[0] == 202
        stamp = int(caller.clock.now().timestamp())
        body = b"command=%2Fask&text=hi&user_id=U1"
        signature = "v0=" + hex_of(f"v0:{stamp}:".encode() + body)
        headers = {
            "X-Slack-Request-Timestamp": str(stamp),
            "X-Slack-Signature": signature,
            "Content-Type": "application/x-www-form-urlencoded",
        }
        assert (await caller.calls("slack", body=body, headers=headers))[0] == 202
        assert (await caller.calls("slack", body=body, headers=headers))[0] == 200
        await caller.clock.advance(301)
        assert (await caller.calls("slack", body=body, headers=headers))[0] == 401
    assert caller.desk.heard[1].text == '{"command": "/ask", "text": "hi", "user_id": "U1"}'


async def test_two_hundred_callers_at_once() -> None:
    async with listening(options(main={"per_minute": 1000})) as caller:
        calls = [caller.calls(payload={"n": n}) for n in range(150)]
        assert {status for status, _, _ in await asyncio.gather(*calls)} == {202}
        caller.desk.open.clear()
        more = [asyncio.create_task(caller.calls(payload={"n": n})) for n in range(1000, 1205)]
        await caller.desk.hears(350)
        async with asyncio.timeout(30):
            done, _ = await asyncio.wait(more, return_when=asyncio.FIRST_COMPLETED)
        assert {task.result()[0] for task in done} == {503}
        caller.desk.open.set()
        assert {(await task)[0] for task in more} == {202, 503}


def test_an_edge_does_not_show_its_secrets() -> None:
    edge = WebhookEdge(options(main={}), EdgeContext("webhook", "main", ManualClock()))
    assert SECRET not in repr(vars(edge))
