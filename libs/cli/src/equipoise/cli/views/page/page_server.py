"""The HTTP server of the page. It is read-only, and refuses other hosts and requests of other sites."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files

import msgspec
from aiohttp import web

from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.views.explanations import Explanations, kind_of
from equipoise.cli.views.page.viewers import Viewers
from equipoise.cli.views.state import LiveState

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}

FILES = {
    "/": ("index.html", "text/html"),
    "/app.js": ("app.js", "text/javascript"),
    "/app.css": ("app.css", "text/css"),
    "/licenses.txt": ("licenses.txt", "text/plain"),
}

COMMENT_SECONDS = 15.0
"""Seconds without an event after which a comment is sent.

It keeps proxies from closing the stream, and shows whether the browser is still connected.
"""

WRITE_SECONDS = 10.0
"""Seconds after which a browser that reads nothing is dropped."""

SAME_SITE = ("same-origin", "none", "")
"""The accepted values of Sec-Fetch-Site, in requests of the page, of typed addresses, and of programs."""


def application(
    state: LiveState,
    viewers: Viewers,
    explanations: Explanations,
    *,
    hosts: frozenset[str],
    ready: Callable[[], bool],
    comment_seconds: float = COMMENT_SECONDS,
    write_seconds: float = WRITE_SECONDS,
) -> web.Application:
    """The application. `hosts`: the accepted names and addresses in the header Host, without a port."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:  # aiohttp passes `handler` by name
        if host_of(request.host) not in hosts and request.path not in ("/healthz", "/readyz"):
            # Through another name for this address, a foreign page could read the cluster (DNS rebinding).
            text = f"{request.host} is not a host of this page: allow it with --allow-host\n"
            return web.Response(status=421, text=text)
        if request.headers.get("Sec-Fetch-Site", "") not in SAME_SITE and request.path != "/":
            return web.Response(status=403, text="requests of other sites are refused\n")
        return await handler(request)

    async def add_headers(_request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(HEADERS)

    async def on_events(request: web.Request) -> web.StreamResponse:
        # When the browser reconnects by itself it sends the header; when the page reconnects it sends the parameter.
        last = request.headers.get("Last-Event-ID") or request.query.get("last", "")
        viewer = viewers.open(last, request.remote or "")
        if viewer is None:
            return web.Response(status=503, text="too many browsers watch\n", headers={"Retry-After": "30"})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        try:
            await response.prepare(request)
            while True:
                event = await viewer.next(comment_seconds)
                if viewer.dropped:
                    break
                async with asyncio.timeout(write_seconds):
                    await response.write(event or b": still here\n\n")
        except (TimeoutError, ConnectionError):
            pass
        finally:
            viewers.close(viewer)
            if request.transport is not None:
                request.transport.abort()  # discards what was not sent, so that a slow browser costs no memory
        return response

    async def on_before(request: web.Request) -> web.StreamResponse:
        text = request.query.get("at", "")
        try:
            frame = state.frame(float(text))
        except ValueError:
            return web.Response(status=400, text=f"at={text!r} is no time: use Unix seconds\n")
        return _json(frame) if frame is not None else web.Response(status=404, text="no node was measured yet\n")

    async def on_explain(request: web.Request) -> web.StreamResponse:
        try:
            kind = kind_of(request.match_info["kind"])
            return _json(await explanations.of(kind, request.query.get("name", "")))
        except InvalidInput as error:
            return web.Response(status=400, text=f"{error.message}\n")

    async def on_healthz(_request: web.Request) -> web.StreamResponse:
        return web.Response(text="ok\n")

    async def on_readyz(_request: web.Request) -> web.StreamResponse:
        is_ready = ready()
        return web.json_response({"ready": is_ready, "viewers": len(viewers)}, status=200 if is_ready else 503)

    app = web.Application(middlewares=[guard], client_max_size=1024)
    app.on_response_prepare.append(add_headers)
    for path, (file, content_type) in FILES.items():
        app.router.add_get(path, _static(file, content_type))
    app.router.add_get("/events", on_events)
    app.router.add_get("/before", on_before)
    app.router.add_get("/explain/{kind}", on_explain)
    app.router.add_get("/healthz", on_healthz)
    app.router.add_get("/readyz", on_readyz)
    return app


def host_of(header: str) -> str:
    """The host in a header Host, without its port and in lower case: `::1` for `[::1]:8765`."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def _static(file: str, content_type: str) -> Handler:
    body = files("equipoise.cli.views.page").joinpath("static", file).read_bytes()

    async def on_file(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type=content_type, charset="utf-8")

    return on_file


def _json(value: msgspec.Struct | Mapping[str, object]) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
