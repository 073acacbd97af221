"""Tools that need a yes, in a group: from the model's wish to a button, and to whoever may press it."""

from dataclasses import replace

from actors.gateway.session_key import key_of
from actors.session import facts as f
from actors.session import words
from actors.session.decision import Rules
from actors.session.rules import PlatformRules
from messages.blocks import ToolStatus
from messages.gateway import Button
from messages.settings import AccessSettings, BusyPolicy, PlatformSettings, ToolSettings
from tests.walks.groups import STAGE, GroupStage
from tests.walks.tools import Bench

QUIET = Rules(busy_dm=BusyPolicy.QUEUE, approval_timeout_s=600.0)
ADMINS = {
    "discord": PlatformSettings(access=AccessSettings(admins=("ada",), users=("*",), user_per_minute=1000))
}


def stage_with(bench: Bench, rules: Rules = QUIET) -> GroupStage:
    return GroupStage(rules, tools=bench.specs(), settings=ToolSettings(), platforms=ADMINS)


async def asked(stage: GroupStage, name: str = "a") -> tuple[Button, ...]:
    stage.models.will_call("mark", name=name)
    await stage.hears(f"mark {name}")
    return stage.buttons()


async def results(stage: GroupStage) -> list[tuple[ToolStatus, str]]:
    ended = await stage.group_facts_of(f.ToolCallEnded)
    return [(fact.status, fact.text) for fact in ended if isinstance(fact, f.ToolCallEnded)]


async def ends(stage: GroupStage, bench: Bench, name: str) -> None:
    """The call that runs ends, and the turn with it."""
    stage.models.will_say(f"{name} is marked")
    bench.let(name)
    await stage.until(lambda: stage.platform.texts()[-1] == f"{name} is marked")


async def test_X08c_an_admin_with_a_conversation_of_their_own_decides() -> None:
    bench = Bench()
    async with stage_with(bench) as stage:
        approve, _ = await asked(stage)
        for user in ("ann", "bob"):
            await stage.presses(approve, user)
            assert stage.platform.texts()[-1].startswith("This is not yours to decide")
        assert bench.began == []
        stage.models.will_say("marked")
        await stage.presses(approve, "ada")
        bench.let("a")
        await stage.until(lambda: stage.platform.texts()[-1] == "marked")
        assert bench.marks == ["a"]
        for user in ("ada", "ann"):
            await stage.presses(approve, user)
            assert stage.platform.texts()[-1] == words.APPROVAL_OVER["approved"]
        assert bench.marks == ["a"]


async def test_X08c_nobody_presses_and_the_session_goes_on_without() -> None:
    bench = Bench()
    async with stage_with(bench) as stage:
        approve, deny = await asked(stage)
        stage.models.will_say("so not")
        await stage.clock.advance(599)
        assert await results(stage) == []
        await stage.clock.advance(2)
        assert stage.platform.texts()[-1] == "so not"
        ((status, text),) = await results(stage)
        assert status is ToolStatus.REFUSED
        assert text.startswith("denied: timeout")
        for button in (approve, deny):
            await stage.presses(button, "ada")
            assert stage.platform.texts()[-1] == words.APPROVAL_OVER["expired"]
        assert bench.began == []


async def test_X08c_of_several_requests_each_runs_out() -> None:
    bench = Bench()
    async with stage_with(bench) as stage:
        stage.models.will_call_all(("mark", {"name": "a"}), ("mark", {"name": "b"}))
        await stage.hears("mark both")
        stage.models.will_say("so not")
        await stage.clock.advance(601)
        assert stage.platform.texts()[-1] == "so not"
        assert [status for status, _ in await results(stage)] == [ToolStatus.REFUSED] * 2


async def test_X08_the_old_button_does_nothing_for_the_next_request() -> None:
    bench = Bench()
    async with stage_with(bench) as stage:
        first, _ = await asked(stage, "a")
        stage.models.will_say("so not")
        await stage.clock.advance(601)
        second, _ = await asked(stage, "b")
        await stage.presses(first, "ada")
        assert stage.platform.texts()[-1] == words.APPROVAL_OVER["expired"]
        assert bench.began == []
        await stage.presses(second, "ada")
        await stage.until(lambda: bench.began == ["b"])
        bench.let("b")
        stage.models.will_say("b it is")
        await stage.until(lambda: stage.platform.texts()[-1] == "b it is")


async def test_X08_a_yes_that_is_written_approves_nothing() -> None:
    bench = Bench()
    async with stage_with(bench) as stage:
        await asked(stage)
        stage.models.otherwise(lambda request: "noted")
        for user in ("bob", "ann", "ada"):
            for text in ("yes", "approve", "/approve"):
                await stage.hears(text, user)
        # ada's own conversation asked nothing, so her /approve without an ID stands for nothing
        assert bench.began == []


async def test_X08_two_conversations_never_take_each_others_yes() -> None:
    bench = Bench()
    async with stage_with(bench) as stage:
        one, _ = await asked(stage, "a")
        stage.models.will_call("mark", name="b")
        await stage.hears("mark b", "bob")
        two, _ = stage.buttons()
        assert one.command != two.command
        await stage.presses(two, "ada")
        await stage.until(lambda: bench.began == ["b"])
        await ends(stage, bench, "b")
        assert bench.began == ["b"]


async def test_X08_a_no_is_told_to_the_model_and_to_the_chat() -> None:
    bench = Bench()
    async with stage_with(bench) as stage:
        _, deny = await asked(stage)
        stage.models.will_say("as you wish")
        await stage.presses(deny, "ada")
        assert stage.platform.texts()[-2:] == ['Denied by "Ada" id ada: `mark` is not run.', "as you wish"]
        assert bench.began == []


async def test_a_request_outlives_a_restart_and_its_time_does_too() -> None:
    bench = Bench()
    async with stage_with(bench) as stage:
        approve, _ = await asked(stage)
        await stage.clock.advance(300)
        await stage.restart()
        await stage.settle()
        assert bench.began == []
        await stage.clock.advance(299)
        assert await results(stage) == []
        await stage.presses(approve, "ada")
        await stage.until(lambda: bench.began == ["a"])
        bench.let("a")
        stage.models.will_say("marked")
        await stage.until(lambda: stage.platform.texts()[-1] == "marked")


async def test_after_a_restart_the_web_page_is_shown_what_waits_for_a_yes() -> None:
    bench = Bench()
    async with stage_with(bench) as stage:
        await asked(stage)
        await stage.restart()
        await stage.settle()
        _, events = stage.hub.now(key_of(STAGE))
        assert [event.kind for event in events] == ["confirmation_asked"]
        stage.models.will_say("as you wish")
        await stage.confirms(events[0].call_id, yes=False, origin=STAGE)  # type: ignore[union-attr]
        assert stage.platform.texts()[-2:] == ["Denied by ann: `mark` is not run.", "as you wish"]


async def test_a_request_runs_out_also_across_a_restart() -> None:
    bench = Bench()
    async with stage_with(bench) as stage:
        approve, _ = await asked(stage)
        await stage.clock.advance(300)
        stage.models.will_say("so not")
        await stage.restart()
        await stage.clock.advance(301)
        await stage.settle()
        assert stage.platform.texts()[-1] == "so not"
        await stage.presses(approve, "ada")
        assert bench.began == []


async def test_the_requester_may_where_the_settings_say_so() -> None:
    bench = Bench()
    rules = replace(QUIET, platforms={"discord": PlatformRules(approvers="requester")})
    async with stage_with(bench, rules) as stage:
        approve, _ = await asked(stage)
        await stage.presses(approve, "bob")
        assert bench.began == []
        await stage.presses(approve, "ann")
        await stage.until(lambda: bench.began == ["a"])
        await ends(stage, bench, "a")


async def test_a_background_task_asks_in_the_chat_too() -> None:
    bench = Bench()
    async with stage_with(bench) as stage:
        stage.models.will_call("mark", name="a")
        await stage.hears("/background mark a")
        approve, _ = stage.buttons()
        await stage.presses(approve, "ann")
        assert bench.began == []
        await stage.presses(approve, "ada")
        await stage.until(lambda: bench.began == ["a"])
        bench.let("a")
        stage.models.will_say("marked")
        await stage.until(lambda: stage.platform.texts()[-1].endswith("marked"))
        assert stage.platform.texts()[-1] == '**Background "mark a"**\n\nmarked'


async def test_many_presses_at_once_run_one_call() -> None:
    bench = Bench()
    async with stage_with(bench) as stage:
        approve, deny = await asked(stage)
        for button in (approve, deny, approve, approve, deny):
            stage.hands_in(stage.line(button.command, "ada", via="button"))
        await stage.until(lambda: bench.began == ["a"])
        await ends(stage, bench, "a")
        assert bench.began == ["a"]
        settled = await stage.group_facts_of(f.ConfirmationSettled)
        assert [fact.yes for fact in settled if isinstance(fact, f.ConfirmationSettled)] == [True]


async def test_what_is_approved_while_a_turn_is_suspected_runs_once_and_is_known_to_have_run() -> None:
    """Turns that were there at two deaths are taken up one at a time; the buttons of the others are pressed meanwhile."""
    bench = Bench()
    async with stage_with(bench) as stage:
        one, _ = await asked(stage, "a")
        stage.models.will_call("mark", name="b")
        await stage.hears("mark b", "bob")
        two, _ = stage.buttons()
        for _ in range(2):
            await stage.restart()
            await stage.settle()
        stage.models.otherwise(lambda request: "marked")
        bench.let("a")
        bench.let("b")
        for button in (one, two):
            stage.hands_in(stage.line(button.command, "ada", via="button"))
        for _ in range(40):
            await stage.clock.advance(1)
            await stage.settle()
        await stage.until(lambda: sorted(bench.marks) == ["a", "b"])
        await stage.settle()
        for user in ("ann", "bob"):
            ended = await stage.group_facts_of(f.ToolCallEnded, user)
            assert [fact.status for fact in ended if isinstance(fact, f.ToolCallEnded)] == [ToolStatus.OK]
