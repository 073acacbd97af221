"""Fetches what people attach into files of ours: Discord's addresses are good for a day at most."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import structlog

from actors.gateway.attachments import TooLargeError, not_fetched, saved, too_large
from actors.gateway.platforms.discord.translate import Attached
from messages.blocks import UserBlock

log = structlog.get_logger(__name__)

PATIENCE_S = 60.0
AT_ONCE = 8
PIECE = 1 << 16


class _RefusedError(Exception):
    """Discord does not give a file out; the reason is for people."""


class Fetcher:
    """Fetches attachments, some at a time, each within a limit and a time."""

    def __init__(
        self,
        session: Callable[[], aiohttp.ClientSession],
        folder: Path,
        most_bytes: int,
        proxy: str | None = None,
    ) -> None:
        self._session, self._folder, self._most, self._proxy = session, folder, most_bytes, proxy
        self._room = asyncio.Semaphore(AT_ONCE)
        self._running: dict[str, set[asyncio.Task[UserBlock]]] = {}
        """Downloads by channel."""

    async def fetch(self, channel: str, attached: tuple[Attached, ...]) -> tuple[UserBlock, ...]:
        """Return a block for each: an image, a file, or words that say why it is neither."""
        return tuple(await asyncio.gather(*(self._one(channel, each) for each in attached)))

    def hurry(self, channel: str) -> None:
        """Give up what is being fetched for a channel: something waits behind it that must not."""
        for task in tuple(self._running.get(channel, ())):
            task.cancel()

    async def _one(self, channel: str, attached: Attached) -> UserBlock:
        name, size = attached.name, attached.size
        if size is not None and size > self._most:
            return too_large(name, size, self._most)
        download = asyncio.create_task(self._bounded(attached))
        running = self._running.setdefault(channel, set())
        running.add(download)
        try:
            return await download
        except asyncio.CancelledError:
            ourselves = asyncio.current_task()
            if ourselves is None or ourselves.cancelling():
                raise
            why = "not waited for, because somebody said stop"
        except TooLargeError as error:
            return too_large(name, error.size, self._most)
        except _RefusedError as error:
            why = str(error)
        except TimeoutError:
            why = "it did not come in time"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            log.warning("an attachment could not be fetched", error=type(error).__name__)
            why = "it could not be fetched"
        finally:
            running.discard(download)
            if not running:
                self._running.pop(channel, None)
        return not_fetched(name, size, why)

    async def _bounded(self, attached: Attached) -> UserBlock:
        async with self._room, asyncio.timeout(PATIENCE_S):
            return await self._download(attached)

    async def _download(self, attached: Attached) -> UserBlock:
        # The address is not the API's: our token is not sent along.
        timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
        async with self._session().get(
            attached.url, allow_redirects=False, proxy=self._proxy, timeout=timeout
        ) as response:
            if response.status != 200:
                raise _RefusedError(f"Discord does not give it out ({response.status})")
            if (response.content_length or 0) > self._most:
                raise TooLargeError(response.content_length or 0)
            mime = attached.mime.split(";")[0].strip()
            return await saved(self._folder, attached.name, mime, _pieces(response.content), limit=self._most)


async def _pieces(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    async for piece in content.iter_chunked(PIECE):
        yield piece
