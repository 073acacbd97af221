"""The routes of the connections to chat platforms."""

from messages.platforms import PlatformState
from tests.actors.console.serving import serving
from tests.fakes.desk import FakeDesk


async def test_accounts_are_listed_and_wishes_passed_on_with_who_has_them() -> None:
    desk = FakeDesk()
    async with serving(desk) as house:
        for name in ("discord", "discord/second"):
            desk.platform_states[name] = PlatformState(name=name, state="connected")
        async with house.web.get("/api/platforms") as response:
            names = [each["name"] for each in (await response.json())["platforms"]]
        assert names == ["discord", "discord/second"]
        async with house.control.post("/api/platforms/discord/second/pause", json={}) as response:
            assert (await response.json())["state"] == "paused"
        async with house.web.post("/api/platforms/discord/restart") as response:
            assert response.status == 200
        assert desk.platform_wishes == [
            ("discord/second", "pause", "the command line"),
            ("discord", "restart", "the web"),
        ]


async def test_what_cannot_be_done_says_why() -> None:
    desk = FakeDesk()
    async with serving(desk) as house:
        async with house.web.post("/api/platforms/nothing/pause") as response:
            assert response.status == 409
            assert "no platform" in (await response.json())["error"]["message"]
        async with house.web.post("/api/platforms/discord/explode") as response:
            assert response.status == 404
        async with house.stranger.post("/api/platforms/discord/pause") as response:
            assert response.status == 401
        assert desk.platform_wishes == []


async def test_readiness_tells_of_platforms_without_the_reasons_and_does_not_fail_for_them() -> None:
    desk = FakeDesk()
    async with serving(desk) as house:
        desk.platform_states["discord"] = PlatformState(
            name="discord", state="degraded: needs_human: the token ends in 1234"
        )
        async with house.stranger.get("/readyz") as response:
            assert response.status == 200
            assert await response.json() == {
                "ready": True,
                "problem": "",
                "platforms": {"discord": "degraded"},
            }
        for known in (house.web, house.control):
            async with known.get("/readyz") as response:
                platforms = (await response.json())["platforms"]
                assert platforms == {"discord": "degraded: needs_human: the token ends in 1234"}
