"""What Slack checks of a message's blocks."""

from typing import Any

SECTION, BLOCKS, MARKDOWN, ALL_BLOCKS = 3_000, 50, 12_000, 13_200


class SlackRefusesError(Exception):
    """`ok: false`, with a code."""

    def __init__(self, code: str, **more: Any) -> None:
        super().__init__(code)
        self.code = code
        self.more = more


def check_blocks(blocks: Any) -> None:
    """Refuse what Slack refuses of blocks."""
    if not isinstance(blocks, list) or len(blocks) > BLOCKS:
        raise SlackRefusesError("invalid_blocks")
    markdown = total = 0
    for block in blocks:
        match block.get("type"):
            case "section":
                text = block.get("text", {})
                if (
                    text.get("type") not in ("mrkdwn", "plain_text")
                    or not 0 < len(text.get("text", "")) <= SECTION
                ):
                    raise SlackRefusesError("invalid_blocks")
            case "markdown":
                markdown += len(block.get("text", ""))
            case "actions":
                _check_actions(block.get("elements"))
            case "divider" | "header" | "context" | "rich_text":
                pass
            case _:
                raise SlackRefusesError("invalid_blocks")
        total += sum(map(len, texts_of([block])))
    if markdown > MARKDOWN or total > ALL_BLOCKS:
        raise SlackRefusesError("msg_blocks_too_long")


def _check_actions(elements: Any) -> None:
    if not isinstance(elements, list) or not 0 < len(elements) <= 25:
        raise SlackRefusesError("invalid_blocks")
    ids = [element.get("action_id", "") for element in elements]
    if len(set(ids)) != len(ids):
        raise SlackRefusesError("invalid_blocks")
    for element in elements:
        label, value = element.get("text", {}), element.get("value", "")
        sound = label.get("type") == "plain_text" and 0 < len(label.get("text", "")) <= 75
        if not sound or len(value) > 2000 or element.get("style") not in (None, "primary", "danger"):
            raise SlackRefusesError("invalid_blocks")


def texts_of(blocks: list[Any]) -> list[str]:
    found = []
    for block in blocks:
        text = block.get("text")
        if isinstance(text, dict):
            found.append(str(text.get("text", "")))
        elif isinstance(text, str):
            found.append(text)
    return found
