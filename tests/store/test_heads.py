"""The index of streams."""

from hypothesis import given
from hypothesis import strategies as st

from store.heads import Head, StreamHeads


@given(st.lists(st.tuples(st.text(max_size=6), st.integers(1, 2**40), st.booleans())))
def test_it_agrees_with_a_dict(puts: list[tuple[str, int, bool]]) -> None:
    heads, model = StreamHeads(capacity=1), dict[str, Head]()
    for stream, number, owing in puts:
        head = Head(number, number, number + 1, owing)
        heads.put_all([(stream, head)])
        model[stream] = head
    assert len(heads) == len(model)
    assert {stream: heads.find(stream) for stream in model} == model
    assert heads.find("another stream") is None
    assert heads.owing_ids() == sorted(head.last_id for head in model.values() if head.owing)


def test_a_stream_costs_less_than_50_bytes() -> None:
    heads, many = StreamHeads(), 100_000
    heads.put_all((f"session:{number}", Head(1, number, number, owing=False)) for number in range(many))
    assert heads.size_in_bytes() / many < 50
    assert heads.find("session:99999") == Head(1, 99_999, 99_999, owing=False)
