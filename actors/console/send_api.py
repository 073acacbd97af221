"""POST /api/send: say something in a chat, in nobody's conversation."""

from typing import Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from actors.console.api import Surroundings, require_ready
from actors.console.bodies import Body, Id
from actors.console.guard import DOOR
from actors.console.wire import ApiError, json_response, read_json
from actors.gateway.sending import SendRefusedError
from messages.base import Text
from messages.sending import SendAsked

_STATUS = {"posted": 200, "owed": 202, "failed": 502}


class SendBody(Body):
    """POST /api/send."""

    target: Id
    text: Text = ""
    file: str | None = None
    """An absolute path; on the control socket only."""
    delivery_id: Id | None = None
    wait_s: Annotated[float, Field(ge=0, le=600)] = 60.0


class SendApi:
    """The route of `callboard send`."""

    def __init__(self, around: Surroundings) -> None:
        self._desk = around.desk
        self._open_requests = around.open_requests

    def routes(self) -> list[Route]:
        return [Route("/api/send", self.send, methods=["POST"])]

    async def send(self, request: Request) -> Response:
        require_ready(self._desk)
        body = await read_json(request, SendBody)
        if body.file is not None and request.scope[DOOR] != "control":
            raise ApiError(403, "files are for the command line on the same machine", code="control_only")
        return await self._open_requests.attend(
            request, self._sent(SendAsked.model_validate(body.model_dump()))
        )

    async def _sent(self, asked: SendAsked) -> Response:
        try:
            ended = await self._desk.send(asked)
        except SendRefusedError as error:
            raise ApiError(422, str(error), code="not_sent") from None
        except OSError as error:
            raise ApiError(422, f"the file cannot be read: {error.strerror}", param="file") from None
        if ended.state == "failed":
            raise ApiError(
                502, ended.why or "the platform did not take it", code="not_delivered", try_again=False
            )
        return json_response(ended, _STATUS[ended.state])
