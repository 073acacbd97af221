"""The last look at a request: the rules of each protocol, checked strictly.

What fails here is a mistake of ours, not of a person's or a provider's: `repair` has
to make every history pass.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MOST_MARKS = 4
_MIMES = ("image/png", "image/jpeg", "image/gif", "image/webp")


class InvalidRequestError(ValueError):
    """A request that its provider would refuse, with the place where it is wrong."""


def _check(holds: object, place: str, rule: str) -> None:
    if not holds:
        raise InvalidRequestError(f"{place}: {rule}")


def _encodable(value: Any, place: str) -> None:
    if isinstance(value, str):
        if not value.isascii():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError:
                raise InvalidRequestError(f"{place}: text that UTF-8 cannot encode") from None
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _check(isinstance(key, str), place, "a key that is no string")
            _encodable(key, place)
            _encodable(item, place)
    elif isinstance(value, list | tuple):
        for item in value:
            _encodable(item, place)
    else:
        _check(value is None or isinstance(value, bool | int | float), place, "a value that is not JSON")
        _check(not isinstance(value, float) or value - value == 0, place, "a number that is not JSON")


def _has_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _tools(schemas: Sequence[Mapping[str, Any]], key: str) -> None:
    names: set[str] = set()
    for at, tool in enumerate(schemas):
        place = f"tools[{at}]"
        name = tool.get("name", "")
        _check(_NAME.fullmatch(name), place, f"a name of other characters or length: {name!r}")
        _check(name not in names, place, f"the name {name!r} occurs twice")
        names.add(name)
        parameters = tool.get(key)
        _check(isinstance(parameters, dict) and parameters.get("type") == "object", place, "no object schema")


# ------------------------------------------------------------- Chat Completions


def validate_openai_chat(wire: Mapping[str, Any]) -> None:
    """Raise InvalidRequestError when the body breaks a rule of Chat Completions."""
    _encodable(wire, "request")
    _check(_has_text(wire.get("model")), "model", "no name")
    messages = wire.get("messages")
    _check(isinstance(messages, list) and messages, "messages", "none")
    assert isinstance(messages, list)
    _tools([tool["function"] for tool in wire.get("tools", ())], "parameters")
    open_ids: list[str] = []
    seen: set[str] = set()
    before = "start"
    for at, message in enumerate(messages):
        place, role = f"messages[{at}]", message.get("role")
        if role == "tool":
            _check(open_ids, place, "a result without its call")
            _check(message.get("tool_call_id") == open_ids.pop(0), place, "a result out of the calls' order")
            _check(_has_text(message.get("content")), place, "an empty result")
            before = "tool"
            continue
        _check(not open_ids, place, f"the calls {open_ids} have no result")
        match role:
            case "system":
                _check(at == 0, place, "a system message that is not the first")
                _check(_has_text(message.get("content")), place, "empty")
            case "user":
                _check(before != "user", place, "two messages of the user in a row")
                _user_content(message.get("content"), place)
            case "assistant":
                _check(before in ("user", "tool"), place, "the assistant speaks first, or twice")
                open_ids = _chat_calls(message, place, seen)
            case _:
                _check(holds=False, place=place, rule=f"an unknown role {role!r}")
        before = str(role)
    _check(not open_ids, "messages", f"the calls {open_ids} have no result")
    _check(before in ("user", "tool"), "messages", "the last is not the user's or a result")


def _user_content(content: object, place: str) -> None:
    if isinstance(content, str):
        _check(_has_text(content), place, "empty")
        return
    _check(isinstance(content, list) and content, place, "empty")
    assert isinstance(content, list)
    for part in content:
        if part.get("type") == "text":
            _check(_has_text(part.get("text")), place, "an empty text")
        else:
            url = part.get("image_url", {}).get("url", "")
            _check(url.startswith(tuple(f"data:{mime};base64," for mime in _MIMES)), place, "a wrong image")


def _chat_calls(message: Mapping[str, Any], place: str, seen: set[str]) -> list[str]:
    calls = message.get("tool_calls", [])
    _check(calls or "tool_calls" not in message, place, "an empty list of calls")
    _check(calls or _has_text(message.get("content")), place, "neither text nor calls")
    ids = []
    for call in calls:
        call_id, function = call.get("id", ""), call.get("function", {})
        _check(_ID.fullmatch(call_id), place, f"a call id of other characters or length: {call_id!r}")
        _check(call_id not in seen, place, f"the call id {call_id!r} occurs twice")
        _check(_NAME.fullmatch(function.get("name", "")), place, "a name of other characters or length")
        arguments = function.get("arguments")
        _check(
            isinstance(arguments, str) and arguments.startswith("{"), place, "arguments that are no object"
        )
        seen.add(call_id)
        ids.append(call_id)
    return ids


# -------------------------------------------------------------------- Messages


def validate_anthropic(wire: Mapping[str, Any]) -> None:
    """Raise InvalidRequestError when the body breaks a rule of the Messages API."""
    _encodable(wire, "request")
    _check(_has_text(wire.get("model")), "model", "no name")
    _check(isinstance(wire.get("max_tokens"), int) and wire["max_tokens"] > 0, "max_tokens", "none")
    messages = wire.get("messages")
    _check(isinstance(messages, list) and messages, "messages", "none")
    assert isinstance(messages, list)
    _tools(wire.get("tools", ()), "input_schema")
    for block in wire.get("system", ()):
        _check(_has_text(block.get("text")), "system", "an empty text")
    open_ids: list[str] = []
    seen: set[str] = set()
    for at, message in enumerate(messages):
        place, content = f"messages[{at}]", message.get("content")
        _check(message.get("role") == ("assistant" if at % 2 else "user"), place, "roles do not alternate")
        _check(isinstance(content, list) and content, place, "empty")
        if at % 2:
            open_ids = _said(content, place, seen, last=at == len(messages) - 1)
        else:
            _heard(content, place, open_ids)
            open_ids = []
    _check(not open_ids, "messages", f"the calls {open_ids} have no result")
    _check(_marks(wire) <= MOST_MARKS, "cache_control", f"more than {MOST_MARKS} marks")


def _heard(content: list[Mapping[str, Any]], place: str, open_ids: list[str]) -> None:
    results = [block for block in content if block.get("type") == "tool_result"]
    _check(content[: len(results)] == results, place, "a result after something else")
    ids = [block.get("tool_use_id") for block in results]
    _check(ids == open_ids, place, f"results for {ids} where the calls are {open_ids}")
    for block in content:
        match block.get("type"):
            case "text":
                _check(_has_text(block.get("text")), place, "an empty text")
            case "image":
                _check(block.get("source", {}).get("media_type") in _MIMES, place, "a wrong image")
            case "tool_result":
                _check(_has_text(block.get("content")), place, "an empty result")
            case kind:
                _check(holds=False, place=place, rule=f"an unknown block {kind!r}")


def _said(content: list[Mapping[str, Any]], place: str, seen: set[str], *, last: bool) -> list[str]:
    ids: list[str] = []
    for block in content:
        match block.get("type"):
            case "text":
                _check(_has_text(block.get("text")), place, "an empty text")
            case "thinking":
                _check(block.get("signature"), place, "reasoning without its signature")
                _check(isinstance(block.get("thinking"), str), place, "reasoning without text")
            case "redacted_thinking":
                _check(block.get("data"), place, "reasoning without data")
            case "tool_use":
                call_id = block.get("id", "")
                _check(_ID.fullmatch(call_id), place, f"a call id of other characters: {call_id!r}")
                _check(call_id not in seen, place, f"the call id {call_id!r} occurs twice")
                _check(_NAME.fullmatch(block.get("name", "")), place, "a name of other characters or length")
                _check(isinstance(block.get("input"), dict), place, "arguments that are no object")
                seen.add(call_id)
                ids.append(call_id)
            case kind:
                _check(holds=False, place=place, rule=f"an unknown block {kind!r}")
    final = content[-1]
    _check("thinking" not in final["type"], place, "reasoning ends the message")
    if last and final["type"] == "text":
        _check(final["text"] == final["text"].rstrip(), place, "blanks at the end of what is to go on")
    return ids


def _marks(value: object) -> int:
    if isinstance(value, Mapping):
        return ("cache_control" in value) + sum(_marks(item) for item in value.values())
    if isinstance(value, list):
        return sum(_marks(item) for item in value)
    return 0
