"""What time it is."""

from zoneinfo import ZoneInfo

from actors.tool.run import ToolError, ToolRun
from actors.tool.spec import tool


@tool(toolset="time")
async def current_time(run: ToolRun, timezone: str = "UTC") -> str:
    """Tell the date, the weekday and the time.

    Args:
        timezone: An IANA name such as `Europe/Berlin`.
    """
    try:
        zone = ZoneInfo(timezone)
    except (ValueError, OSError, KeyError):
        raise ToolError(
            f"There is no time zone `{timezone}`; give an IANA name such as `Asia/Tokyo`."
        ) from None
    now = run.clock.now().astimezone(zone)
    return f"{now:%A} {now.isoformat(timespec='seconds')} ({timezone})"
