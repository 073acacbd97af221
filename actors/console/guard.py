"""The first thing that a request meets: access, the state of the house, and headers for browsers."""

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from actors.console.access import Access, Door, Headers
from actors.console.wire import ApiError

DOOR = "callboard.door"
"""The scope's key that says where the request came in."""

_OPEN = frozenset({"/healthz", "/readyz", "/api/login"})
"""Needs no token: says nothing to strangers, or takes one."""

_CONTENT_SECURITY_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:;"
    b" base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", _CONTENT_SECURITY_POLICY),
]


class Guard:
    """ASGI middleware, one for each door; plain, because it is passed by every request."""

    def __init__(self, app: ASGIApp, access: Access, door: Door) -> None:
        self._app = app
        self._access = access
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        scope[DOOR] = self._door
        headers: Headers = dict(scope["headers"])
        more = [*_SECURITY_HEADERS, *self._access.cors(headers)]

        async def send_guarded(event: Message) -> None:
            if event["type"] == "http.response.start":
                event["headers"] = [*event["headers"], *more]
            await send(event)

        if self._door == "tcp":
            try:
                self._check_address(scope, headers)
                if scope["method"] == "OPTIONS":  # a browser's preflight, which carries no token
                    await Response(status_code=204)(scope, receive, send_guarded)
                    return
                self._check_token(scope, headers)
            except ApiError as refusal:
                await refusal.response()(scope, receive, send_guarded)
                return
        await self._app(scope, receive, send_guarded)

    def _check_address(self, scope: Scope, headers: Headers) -> None:
        server = scope.get("server")
        self._access.check_address(headers, reached_at=server[0] if server else None)
        self._access.check_origin(headers, navigation=_is_page(scope))

    def _check_token(self, scope: Scope, headers: Headers) -> None:
        if not _is_page(scope) and scope["path"] not in _OPEN:
            self._access.check_token(headers, changes=scope["method"] not in {"GET", "HEAD"})


def _is_page(scope: Scope) -> bool:
    path = scope["path"]
    return scope["method"] in {"GET", "HEAD"} and (path == "/" or path.startswith("/static/"))
