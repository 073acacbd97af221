"""Bounded output, without a process."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.tool.output import Cleaner, HeadAndTail, binary_type, cut_text, decode
from actors.tool.process import Output


def cleaned(*pieces: bytes) -> bytes:
    cleaner = Cleaner()
    return b"".join(map(cleaner.feed, pieces)) + cleaner.end()


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        (b"plain\n", b"plain\n"),
        (b"\x1b[31mred\x1b[0m\n", b"red\n"),
        (b"\x1b]0;title\x07x\x1b]8;;http://a\x1b\\y\n", b"xy\n"),
        (b"10%\r50%\r100%\ndone\n", b"100%\ndone\n"),
        (b"dos\r\nlines\r\n", b"dos\nlines\n"),
        (b"left\r", b"left"),
        (b"twice\r\r\n", b"twice\n"),
        (b"\x1b[2K\r\x1b[1mstep 2\x1b[0m", b"step 2"),
        (b"unfinished \x1b[", b"unfinished ["),
    ],
)
def test_T08_colours_and_repainted_lines_are_cleaned_however_they_are_cut(raw: bytes, clean: bytes) -> None:
    for at in range(len(raw) + 1):
        assert cleaned(raw[:at], raw[at:]) == clean
    assert cleaned(*(raw[n : n + 1] for n in range(len(raw)))) == clean


def test_T08_a_progress_bar_of_100_000_steps_leaves_its_last_state() -> None:
    bar = b"".join(b"\r\x1b[32mstep %d\x1b[0m" % n for n in range(100_000)) + b"\nend\n"
    assert cleaned(*(bar[n : n + 65536] for n in range(0, len(bar), 65536))) == b"step 99999\nend\n"


@given(st.lists(st.binary(max_size=300), max_size=20), st.integers(10, 400))
def test_T08_head_and_tail_and_the_count_add_up(pieces: list[bytes], budget: int) -> None:
    kept = HeadAndTail(budget)
    for piece in pieces:
        kept.feed(piece)
    whole = b"".join(pieces)
    cut = kept.text("|{}|".format)
    assert kept.total == len(whole)
    if cut.dropped == 0:
        assert cut.text == decode(whole)


@given(st.text(max_size=600), st.integers(60, 400))
def test_T08_a_cut_never_breaks_a_character_and_counts_truly(text: str, budget: int) -> None:
    text = text.encode("utf-8", "replace").decode()
    cut = cut_text(text, budget, "[{} bytes left out]".format)
    assert len(cut.text.encode()) <= max(budget, len(text.encode()) if cut.dropped == 0 else budget)
    if cut.dropped:
        head, _, tail = cut.text.partition(f"[{cut.dropped} bytes left out]")
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head.encode()) + len(tail.encode()) + cut.dropped == len(text.encode())


@given(
    st.lists(
        st.binary(max_size=500) | st.text(max_size=200).map(lambda t: t.encode("utf-8", "replace")),
        max_size=30,
    )
)
def test_T08_shown_output_stays_below_its_budget_whatever_comes(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    place = tmp_path_factory.mktemp("kept") / "r.txt"
    output = Output(1000, place)
    for piece in pieces:
        output.feed(piece)
    output.close()
    assert len(output.text().encode()) <= 1000


def test_T08_the_kept_file_is_private_and_whole(tmp_path: Path) -> None:
    output = Output(1000, tmp_path / "r.txt")
    text = "".join(f"{n}: ünïcödé\n" for n in range(500))
    data = text.encode()
    for n in range(0, len(data), 7):
        output.feed(data[n : n + 7])
    output.close()
    assert (tmp_path / "r.txt").read_text() == text
    assert (tmp_path / "r.txt").stat().st_mode & 0o777 == 0o600
    head, _, tail = output.text().partition("\n\n[…")
    assert text.startswith(head)
    assert text.endswith(tail.partition("…]\n\n")[2])
    dropped = int(tail.split(" bytes")[0].replace(",", ""))
    assert dropped == len(data) - len(head.encode()) - len(tail.partition("…]\n\n")[2].encode())


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"RIFF\x00\x00\x00\x00WEBP", "image/webp"),
        (b"a\x00b", "application/octet-stream"),
        (bytes(range(1, 30)), "application/octet-stream"),
        ("text, ünïcödé".encode(), None),
        ("text".encode("utf-16"), None),
        (b"caf\xe9", None),
        (b"", None),
        (b"\x1b[31mred\x1b[0m", None),
    ],
)
def test_T08_binary_data_is_told_from_text(start: bytes, kind: str | None) -> None:
    assert binary_type(start) == kind
