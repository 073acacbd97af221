"""What people attach, brought here from Slack."""

import asyncio
from dataclasses import replace
from pathlib import Path

import aiohttp
import structlog

from actors.gateway.attachments import TooLargeError, not_fetched, saved, too_large
from actors.gateway.edge import EdgeError
from actors.gateway.platforms.slack.translate import WantedFile
from actors.gateway.platforms.slack.web import Web
from messages.blocks import UserBlock
from messages.delivery import ProblemKind

log = structlog.get_logger(__name__)

FETCH_S = 60.0
AT_ONCE = 8
PIECE = 1 << 18


class Attachments:
    """Brings files into our folder."""

    def __init__(self, web: Web, folder: Path, most_bytes: int) -> None:
        self._web = web
        self._folder = folder
        self._most = most_bytes
        self._room = asyncio.Semaphore(AT_ONCE)

    async def fetch(self, wanted: tuple[WantedFile, ...]) -> tuple[UserBlock, ...]:
        """Return a block for each file, in order; one that could not be had is a text that says so."""
        return tuple(await asyncio.gather(*(self._fetched(each) for each in wanted)))

    async def _fetched(self, wanted: WantedFile) -> UserBlock:
        why = wanted.why_not
        if not why:
            try:
                async with asyncio.timeout(FETCH_S), self._room:
                    wanted = wanted if wanted.url else await self._asked(wanted)
                    self._check(wanted.size)
                    return await self._downloaded(wanted)
            except TooLargeError:
                return too_large(wanted.name, wanted.size, self._most)
            except TimeoutError:
                why = "it did not come in time"
            except EdgeError as error:
                why = error.problem.detail
            except (aiohttp.ClientError, OSError) as error:
                why = f"it could not be fetched: {type(error).__name__}"
            log.warning("an attachment could not be fetched", file=wanted.id, why=why)
        return not_fetched(wanted.name, wanted.size, why)

    def _check(self, size: int | None) -> None:
        if size is not None and size > self._most:
            raise TooLargeError(size)

    async def _asked(self, wanted: WantedFile) -> WantedFile:
        """Ask where a file is whose event does not tell: one of a shared channel. Raises EdgeError."""
        answer = await self._web.read("files.info", file=wanted.id)
        told = answer.get("file")
        raw = told if isinstance(told, dict) else {}
        url, size, name = (
            raw.get("url_private_download") or raw.get("url_private"),
            raw.get("size"),
            raw.get("name"),
        )
        if not isinstance(url, str):
            raise EdgeError(ProblemKind.REFUSED, "Slack does not say where it is")
        return replace(
            wanted,
            url=url,
            name=name if isinstance(name, str) and name else wanted.name,
            size=size if isinstance(size, int) else None,
        )

    async def _downloaded(self, wanted: WantedFile) -> UserBlock:
        async with self._web.opened(wanted.url) as response:
            self._check(response.content_length)
            if response.content_type == "text/html" and wanted.mime not in ("", "text/html"):
                # Slack shows its sign-in page to a token that may not read files.
                detail = "Slack does not give it: the app needs the scope files:read"
                raise EdgeError(ProblemKind.REFUSED, detail)
            pieces = response.content.iter_chunked(PIECE)
            return await saved(self._folder, wanted.name, wanted.mime, aiter(pieces), limit=self._most)
