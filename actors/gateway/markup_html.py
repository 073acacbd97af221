"""From Markdown, as models write it, to a safe subset of HTML, for platforms that show HTML. Pure; never fails.

What is HTML in the text is shown as text. Links go to web and mail addresses alone; an
image becomes a link to it, since fetching it would tell its server who reads.
"""

import html as escaping
import re
from collections.abc import Callable
from typing import Any

import mistune
import structlog

from actors.gateway.markup import narrowed

log = structlog.get_logger(__name__)

_SCHEME = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)


_OPEN, _DONE = "\u2610", "\u2611"


class _Safe(mistune.HTMLRenderer):
    """Links with known schemes; images as links; boxes of tasks as characters."""

    def __init__(self) -> None:
        super().__init__(escape=True)

    def link(self, text: str, url: str, title: str | None = None) -> str:  # noqa: ARG002 the library's
        if not _SCHEME.match(url):
            return text if url in text else f"{text} ({escaping.escape(url)})"
        return f'<a href="{escaping.escape(url, quote=True)}">{text}</a>'

    def image(self, text: str, url: str, title: str | None = None) -> str:  # noqa: ARG002 the library's
        return self.link(text or escaping.escape(url), url)

    def block_code(self, code: str, info: str | None = None) -> str:
        language = re.sub(r"[^\w+#.-].*", "", (info or "").strip(), flags=re.DOTALL)
        kind = f' class="language-{escaping.escape(language, quote=True)}"' if language else ""
        return f"<pre><code{kind}>{escaping.escape(code, quote=False)}</code></pre>\n"


def _task(_: Any, text: str, checked: bool = False) -> str:
    return f"<li>{_DONE if checked else _OPEN} {text}</li>\n"


def _table_cell(_: Any, text: str, align: str | None = None, head: bool = False) -> str:  # noqa: ARG001
    tag = "th" if head else "td"
    return f"<{tag}>{text}</{tag}>\n"


def _parser() -> Callable[[str], str]:
    renderer = _Safe()
    made = mistune.create_markdown(
        renderer=renderer, hard_wrap=True, plugins=["strikethrough", "table", "task_lists", "url"]
    )
    renderer.register("task_list_item", _task)
    renderer.register("table_cell", _table_cell)
    return made  # type: ignore[return-value]


_PARSE = _parser()


def html(text: str) -> str:
    """Render a text. Single line breaks stay: a chat is not a book."""
    try:
        return _PARSE(narrowed(text)).strip()
    except Exception:  # a library's parser may fail in its own ways; what was said is shown all the same
        log.exception("a text could not be rendered; it is shown as it is", characters=len(text))
        return _as_it_is(text)


def _as_it_is(text: str) -> str:
    return "<p>" + escaping.escape(text, quote=False).replace("\n", "<br>\n") + "</p>"
