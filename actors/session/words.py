"""What the product itself says to people and to models. One place, so that it can be read as a whole."""

STOPPED = "Stopped."
NOTHING_RUNS = "Nothing is running here."
EMPTY = "The model gave no answer this time. Please ask again, or in other words."
CUT_MARK = "\n\n[cut off: the model reached its output limit]"
DECLINED = "The model's provider declined to answer this. Another wording may help."
UNREADABLE = "The model wrote something its provider could not read, twice. Please try again."
TOO_MANY_CUTS = (
    "The model's tool calls were cut off by its output limit again and again, so none of them was run. "
    "Ask for a smaller piece, or raise `model.max_output_tokens`."
)
PROVIDER_DOWN = (
    "The model's provider has been down for {minutes} minutes, so this was given up. Please ask again later."
)
CRASHED = "This request stopped the program {times} times, so it was set aside. Nothing else was lost."
DIED_RUNNING = "the process died: this turn was running at {times} starts in a row"
DIED_AT_THE_DOOR = "the process died {times} times while this message was being taken"
APOLOGY = (
    "Something went wrong inside while handling this, twice. It was set aside and noted for the operator."
)
QUEUE_FULL = "{waiting} messages are waiting here already. Please wait for an answer, or /stop."
NEW = "A new conversation begins."
NEW_WITH_DROPPED = "A new conversation begins. {count} waiting message(s) will not be answered: {texts}"
DROPPED_BY_NEW = "a new conversation was begun before it was this message's turn"
BUSY_NOW = "While I am busy, a new message will {does}. Change it with /busy interrupt|queue|collect|steer."
POLICY_DOES = {
    "interrupt": "interrupt me, and I start again with both",
    "queue": "wait for its turn",
    "collect": "wait, and all that wait are answered together",
    "steer": "be added to what I am doing",
}
BAD_POLICY = "`{given}` is not a way to be busy. Choose one: interrupt, queue, collect, steer."
MODEL_NOW = "Answers here come from {model}."
MODEL_DEFAULT = "the configured model"
SAY_SOMETHING = "What should I {verb}? Write it after the command: /{verb} …"
UNKNOWN_COMMAND = (
    "I do not know /{name}. /help lists what I know. To say it to the model, put a space before the slash."
)

# ------------------------------------------------------------------ to the model

NUDGE_EMPTY = "[system] Your last answer held no text. Answer the person now, in plain words, using what you have found."
NUDGE_MALFORMED = "[system] Your last tool call could not be read. Write it again, as valid JSON."
NUDGE_BUDGET = (
    "[system] You have used all {calls} model calls of this turn. No more tools can be run. "
    "Tell the person now what you found out or did, and what is left to do."
)
CALL_CUT = (
    "Not run: your output was cut off by the output limit, so these arguments may be incomplete. "
    "Try again with less content in one call."
)
CALL_SKIPPED = "Not run: the person said something new first; see the next message."
CALL_STOPPED = "Not run: the person stopped this first."
CALL_INTERRUPTED = "Interrupted by the person while it ran."
CALL_UNKNOWN = (
    "The program was stopped while this ran, so its outcome is unknown: it may or may not have taken effect. "
    "Check before you do it again."
)
CALL_OVER_BUDGET = "Not run: all model calls of this turn are used."
CALL_NOT_ALLOWED = (
    "Not run: `{name}` is not allowed here. The operator can allow it with `tools.allow: [{name}]` in "
    "callboard.yaml; tell the person so if it matters."
)
CALL_DECLINED = "Not run: {by} said no."

MARKERS = frozenset({"(empty)", "[empty]", "(no content)", "[no content]", "(empty response)", "<empty>"})
"""What models write when they have nothing to say: no answer, and never given back to them."""
