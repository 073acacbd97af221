"""The web page: three files that are read once, and the login link."""

import hashlib
from pathlib import Path

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from actors.console.access import Access
from actors.console.wire import ApiError

_FOLDER = Path(__file__).parent / "static"
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Pages:
    """`/`, `/static/…`. They hold nothing secret, so they are shown before anybody has logged in."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._files = {path.name: path.read_bytes() for path in _FOLDER.iterdir() if path.suffix in _KINDS}
        self._tags = {
            name: f'"{hashlib.sha256(data).hexdigest()[:16]}"' for name, data in self._files.items()
        }

    def routes(self) -> list[Route]:
        return [Route("/", self.index), Route("/static/{name}", self.static)]

    async def index(self, request: Request) -> Response:
        """Show the page. With `?login=<one-time code>`, give the cookie first and take the code out of the address."""
        code = request.query_params.get("login")
        if code is None or request.method == "HEAD":
            return self._file("index.html", request)
        if not self._access.codes.use(code):
            return RedirectResponse("/#link-used", 303, {"cache-control": "no-store"})
        cookie = self._access.cookie(secure=request.url.scheme == "https")
        return RedirectResponse("/", 303, {"cache-control": "no-store", "set-cookie": cookie})

    async def static(self, request: Request) -> Response:
        return self._file(request.path_params["name"], request)

    def _file(self, name: str, request: Request) -> Response:
        data = self._files.get(name)
        if data is None:
            raise ApiError(404, f"there is no file {name!r}")
        headers = {"etag": self._tags[name], "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == self._tags[name]:
            return Response(status_code=304, headers=headers)
        return Response(data, headers=headers, media_type=_KINDS[Path(name).suffix])
