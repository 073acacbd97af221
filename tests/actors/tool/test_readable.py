"""A web page as text."""

import pytest

from actors.tool.readable import readable

PAGE = """<!DOCTYPE html><html><head><title>A &amp; B</title><style>p { color: red }</style>
<script>if (a < b) document.write("<p>no</p>")</script></head>
<body><!-- hidden --><nav><a href="/home">Home</a> <a href="#top">top</a> <a href="javascript:x()">js</a></nav>
<h1>Head<b>line</b></h1><p>First
   paragraph with <a href='x/y.html?a=1&amp;b=2'>a link</a>.</p><p>5 < 6 &lt; 7<br>next</p>
<ul><li>one</li><li>two</li></ul><table><tr><td>a</td><td>b</td></tr></table><pre>  kept
    as is</pre></body></html>"""


def test_what_a_person_would_read_is_left() -> None:
    text = readable(PAGE, "https://example.com/dir/page")
    for part in (
        "A & B",
        "Home (https://example.com/home) top js",
        "# Headline",
        "First paragraph with a link (https://example.com/dir/x/y.html?a=1&b=2).",
        "5 < 6 < 7\nnext",
        "- one\n\n- two",
        "a | b |",
    ):
        assert part in text
    for part in ("color", "document", "hidden", "<p>", "javascript:", "#top"):
        assert part not in text


@pytest.mark.parametrize(
    "piece",
    [
        "<!--",
        "<script>",
        "<a ",
        '<a "',
        "<title",
        "</script",
        "<",
        "&#",
        "<pre>",
        "<a href=",
        "<a href='x'>",
        "<![",
    ],
)
def test_hostile_markup_is_read_in_linear_time(piece: str) -> None:
    readable(piece * (1_000_000 // len(piece)), "https://example.com")


@pytest.mark.parametrize(
    "markup", ["", "text", "<", "<a", "<a href", "a<b", "<p>x", "<title>t", "<head><p>x"]
)
def test_broken_markup_is_read_as_far_as_it_goes(markup: str) -> None:
    assert isinstance(readable(markup, "https://example.com"), str)
    assert readable("<head><p>x", "https://example.com") == "x"
