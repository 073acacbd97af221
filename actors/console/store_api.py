"""POST /api/store/backup: a consistent copy of the database of the running process; on the control socket only."""

from pathlib import Path

import duckdb
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from actors.console.api import Surroundings
from actors.console.bodies import Body
from actors.console.guard import DOOR
from actors.console.wire import ApiError, json_response, read_json


class BackupBody(Body):
    """POST /api/store/backup: where the copy goes, as an absolute path of a file that is not there yet."""

    path: str


class StoreApi:
    """The routes of the database as a file: for whoever has a shell on this machine, and nobody else."""

    def __init__(self, around: Surroundings) -> None:
        self._desk = around.desk

    def routes(self) -> list[Route]:
        return [Route("/api/store/backup", self.back_up, methods=["POST"])]

    async def back_up(self, request: Request) -> Response:
        if request.scope[DOOR] != "control":
            raise ApiError(403, "this is for the command line on the same machine", code="control_only")
        body = await read_json(request, BackupBody)
        copy = Path(body.path)
        if not copy.is_absolute() or "\0" in body.path:
            raise ApiError(422, "path: must be absolute", param="path")
        try:
            size = await self._desk.back_up(copy)
        except FileExistsError:
            raise ApiError(409, f"{copy} is there already", param="path", code="file_exists") from None
        except (OSError, duckdb.Error) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ApiError(507, f"{copy} cannot be written: {reason}", code="backup_failed") from None
        return json_response({"path": str(copy), "bytes": size})
