"""Check requests and add headers to responses, so that only the page on this computer can use the server.

The server listens on the loopback interface, so other computers cannot reach it. However, other web pages in the user's
browser can reach it. Such a page can send requests to any address (cross-site request forgery), and it can resolve its
own host name to 127.0.0.1 (DNS rebinding). The headers Host and Origin reveal such requests, because the browser sets
them and the page cannot change them.
"""

import re
from typing import Any, List, MutableMapping, Optional, Tuple

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

from ..platform.console import escape_unprintable

NAMES = ("127.0.0.1", "localhost")
"""Host names that are accepted in the Host header."""

HEADERS = {
    # The page may load files only from this server. Even if the script of the page contains a mistake, text cannot be
    # executed as a script or interpreted as markup.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_HOST = re.compile(rf"({'|'.join(map(re.escape, NAMES))})(:[0-9]{{1,5}})?", re.IGNORECASE)


class LocalOnlyMiddleware:
    """ASGI middleware that rejects requests from pages of other servers and adds :data:`HEADERS` to responses.

    Headers that a response already contains are not replaced.
    """

    def __init__(self, app: Any):
        self.app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Pass a request to the application, or reject it."""
        if scope["type"] != "http":  # start-up and shut-down events of the server
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=list(message.get("headers", ())))
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                message = {**message, "headers": headers.raw}
            await send(message)

        refusal = find_request_rejection(scope["method"], scope["headers"])
        app = self.app if refusal is None else PlainTextResponse(refusal[1], refusal[0])
        await app(scope, receive, send_with_headers)


def find_request_rejection(method: str, headers: List[Tuple[bytes, bytes]]) -> Optional[Tuple[int, str]]:
    """Return an HTTP status and a message if the request must be rejected, or None if it is accepted."""
    list_values = Headers(raw=headers).getlist
    hosts, origins, sites, kinds = map(list_values, ("host", "origin", "sec-fetch-site", "content-type"))
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
        return 403, f"This server answers to {' and '.join(NAMES)} only, not to {_format_header_values(hosts)}."
    if method in ("GET", "HEAD"):
        return None
    if any(origin.lower() != f"http://{hosts[0]}".lower() for origin in origins):
        return 403, f"This server answers to its own page only, not to {_format_header_values(origins)}."
    if any(site != "same-origin" for site in sites):
        return 403, "This server answers to its own page only, not to another site."
    if len(kinds) != 1 or kinds[0].split(";")[0].strip().lower() != "application/json":
        return 415, f"Send JSON (Content-Type: application/json), not {_format_header_values(kinds)}."
    return None


def _format_header_values(values: List[str]) -> str:
    return escape_unprintable(", ".join(values))[:100] or "a request without that header"
