"""What a person can do about a failed model call, in one or two sentences."""

import re

from actors.session.models.where import Where
from messages.model import FailureKind

CONNECT = (
    "No model is connected. Do one of these: set a key in the environment (OPENAI_API_KEY, ANTHROPIC_API_KEY, "
    "OPENROUTER_API_KEY, …); start Ollama, LM Studio or llama.cpp on this machine; or name a provider in "
    "callboard.yaml (`model:` and `providers:`). Then start again."
)


def remedy_for(kind: FailureKind, where: Where, status: int | None, text: str) -> str:
    """Return what to do, '' where waiting and trying again is all there is."""
    provider, name = where.model.provider, where.model.name
    match kind:
        case FailureKind.AUTH if status == 403:
            return f"{provider} does not allow this key to use {name}. Check the key's rights ({where.key_setting})."
        case FailureKind.AUTH:
            return f"{provider} did not accept the key. Set a valid one: {where.key_setting}."
        case FailureKind.BILLING:
            return f"The account at {provider} has no credit or quota left. Top it up there, or choose another model."
        case FailureKind.NOT_FOUND:
            return _not_found(where)
        case FailureKind.CONTEXT_OVERFLOW:
            return "The conversation is longer than the model can read. Start a new one with /new."
        case FailureKind.TOO_LARGE:
            return "The request is too large for the model's server. Send fewer or smaller images or files."
        case FailureKind.REFUSED:
            return "The provider's safety system declined this request. Put it in other words."
        case FailureKind.INVALID_REQUEST:
            return _invalid(text)
        case FailureKind.NETWORK:
            return _network(where, text)
        case FailureKind.NO_MODEL:
            return CONNECT
        case _:
            return ""


def _not_found(where: Where) -> str:
    provider, name = where.model.provider, where.model.name
    if where.on_this_machine:
        return (
            f"{where.address} has no model {name!r}. List its models with `curl {where.address}/models` "
            "(Ollama: `ollama list`, `ollama pull NAME`), then set `model.name` in callboard.yaml."
        )
    return (
        f"{provider} has no model {name!r}, or {where.address} is not its API's address. "
        f"List the models with GET {where.address}/models, then set `model.name` in callboard.yaml, "
        f"or mend `providers.{provider}.base_url` (it usually ends in /v1)."
    )


def _invalid(text: str) -> str:
    limit = re.search(r"at most (\d+)", text)
    if "tokens" in text and ("max_" in text or limit):
        return (
            f"Set `model.max_output_tokens` in callboard.yaml lower{f' ({limit.group(1)})' if limit else ''}."
        )
    return ""


def _network(where: Where, what: str) -> str:
    setting = f"`providers.{where.model.provider}.base_url` in callboard.yaml"
    match what:
        case "refused":
            return f"Nothing listens at {where.address}. Start the model's server, or mend {setting}."
        case "name":
            return f"The name in {where.address} is unknown. Check the network, or mend {setting}."
        case "tls":
            return (
                f"No safe connection to {where.address}. Check its certificate, or http/https in {setting}."
            )
        case _:
            return ""
