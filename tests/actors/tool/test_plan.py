"""Which calls run together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.tool.plan import conflict, plan
from messages.ids import CallId
from messages.tool import Effect, PreparedCall


def read(name: str, *paths: str) -> PreparedCall:
    return PreparedCall(call_id=CallId(name), name="read_file", arguments="{}", paths=paths)


def write(name: str, *paths: str) -> PreparedCall:
    return PreparedCall(
        call_id=CallId(name), name="write_file", arguments="{}", effect=Effect.WRITE, paths=paths
    )


def shell(name: str) -> PreparedCall:
    return PreparedCall(call_id=CallId(name), name="terminal", arguments="{}", effect=Effect.DANGEROUS)


def question(name: str) -> PreparedCall:
    return PreparedCall(call_id=CallId(name), name="clarify", arguments="{}", interactive=True)


TABLE: list[tuple[str, list[PreparedCall], list[list[str]]]] = [
    ("nothing", [], []),
    ("reads run together", [read("a", "/w/x"), read("b", "/w/x"), read("c")], [["a", "b", "c"]]),
    ("writers of different paths run together", [write("a", "/w/x"), write("b", "/w/y")], [["a", "b"]]),
    ("writers of one path do not", [write("a", "/w/x"), write("b", "/w/x")], [["a"], ["b"]]),
    ("a read waits for an earlier write", [write("a", "/w/x"), read("b", "/w/x")], [["a"], ["b"]]),
    ("a write waits for an earlier read", [read("a", "/w/x"), write("b", "/w/x")], [["a"], ["b"]]),
    ("a folder covers what is in it", [write("a", "/w/d/x"), read("b", "/w/d")], [["a"], ["b"]]),
    ("but not its namesake", [write("a", "/w/d/x"), read("b", "/w/dd")], [["a", "b"]]),
    ("the root covers everything", [write("a", "/w/x"), read("b", "/")], [["a"], ["b"]]),
    ("who waits for nobody goes first", [write("a", "/x"), read("b", "/x"), read("c", "/y")], [["a", "c"], ["b"]]),
    ("a write without paths runs alone", [read("a"), write("b"), read("c")], [["a"], ["b"], ["c"]]),
    ("a dangerous call runs alone", [read("a"), shell("b"), shell("c"), read("d")], [["a"], ["b"], ["c"], ["d"]]),
    ("an interactive call runs alone", [read("a"), question("b"), read("c")], [["a"], ["b"], ["c"]]),
]  # fmt: skip


@pytest.mark.parametrize(("calls", "batches"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_table(calls: list[PreparedCall], batches: list[list[str]]) -> None:
    assert [list(batch) for batch in plan(calls)] == batches


def test_no_more_than_so_many_at_once() -> None:
    assert [len(batch) for batch in plan([read(str(n)) for n in range(20)], parallel=8)] == [8, 8, 4]


def test_a_batch_of_none_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        plan([], parallel=0)


PATHS = st.lists(st.sampled_from(["/w", "/w/a", "/w/a/b", "/w/a/b/c", "/w/ab", "/w/d"]), max_size=2).map(
    tuple
)
CALLS = st.lists(
    st.builds(
        lambda effect, paths, interactive: (effect, paths, interactive),
        st.sampled_from(
            [Effect.READ, Effect.READ, Effect.WRITE, Effect.WRITE, Effect.EXTERNAL, Effect.DANGEROUS]
        ),
        PATHS,
        st.sampled_from([False, False, False, True]),
    ),
    max_size=12,
).map(
    lambda rows: [
        PreparedCall(
            call_id=CallId(str(n)),
            name="t",
            arguments="{}",
            effect=effect,
            paths=paths,
            interactive=interactive,
        )
        for n, (effect, paths, interactive) in enumerate(rows)
    ]
)


@given(CALLS, st.integers(1, 8))
def test_every_call_runs_once_in_a_batch_that_is_not_too_large(
    calls: list[PreparedCall], parallel: int
) -> None:
    batches = plan(calls, parallel)
    assert sorted(c for batch in batches for c in batch) == sorted(call.call_id for call in calls)
    assert all(0 < len(batch) <= parallel for batch in batches)


@given(CALLS, st.integers(1, 8))
def test_calls_whose_order_matters_keep_it_and_never_run_together(
    calls: list[PreparedCall], parallel: int
) -> None:
    place = {c: n for n, batch in enumerate(plan(calls, parallel)) for c in batch}
    for n, earlier in enumerate(calls):
        for later in calls[n + 1 :]:
            if conflict(earlier, later):
                assert place[earlier.call_id] < place[later.call_id]


@given(CALLS)
def test_two_writers_of_one_path_or_of_a_folder_and_its_content_never_run_together(
    calls: list[PreparedCall],
) -> None:
    by_id = {call.call_id: call for call in calls}
    for batch in plan(calls):
        written = [
            path.split("/") for c in batch if by_id[c].effect is Effect.WRITE for path in set(by_id[c].paths)
        ]
        own = [len(set(by_id[c].paths)) for c in batch if by_id[c].effect is Effect.WRITE]
        if len(own) > 1:
            owners = [c for c in batch if by_id[c].effect is Effect.WRITE for _ in set(by_id[c].paths)]
            for a in range(len(written)):
                for b in range(a + 1, len(written)):
                    if owners[a] != owners[b]:
                        shorter = min(len(written[a]), len(written[b]))
                        assert written[a][:shorter] != written[b][:shorter]
