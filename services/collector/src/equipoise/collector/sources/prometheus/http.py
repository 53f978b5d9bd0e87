"""HTTP to Prometheus, with the limits that the client library does not set, and with errors that state what to do.

A `requests` session whose adapter refuses redirects (a token must not follow one) and limits the size and duration of a
response. The client library keeps only `data.result` and drops `warnings`, so `Response.json` puts the whole document
where the library expects the result (docs/decisions/0055).
"""

from collections.abc import Callable
from io import BytesIO
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.auth import HTTPBasicAuth

from equipoise.collector.decisions.query import SourceError
from equipoise.collector.settings import PrometheusSettings
from equipoise.collector.sources.prometheus.json_document import NOT_JSON, decode_document, error_text
from equipoise.runtime.process.bounded_files import SECRET_LIMIT, read_bounded_text
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.failure_reason import failure_reason

CONNECT_TIMEOUT = 3.05
"""Seconds; a little above a multiple of 3, the time after which TCP sends its first packet again."""

MAX_URL = 8_000
"""Characters. Proxies refuse longer URLs, and Prometheus those of a megabyte. A query that names thousands of nodes is
sent as a form."""

_CHUNK_BYTES = 2**16

_BUSY = frozenset({429, 502, 503, 504})


class Unavailable(SourceError):
    """The server is not reachable or busy: the same query may succeed later."""


class Refused(SourceError):
    """The server requires credentials, or rejects those that it got: the same query fails later, too."""


class QueryTooLarge(SourceError):
    """The query is too large for the server, or its response for us: a smaller one may succeed."""


class WholeResponse(requests.Response):
    """A response whose whole JSON document reaches the caller of PrometheusConnect.custom_query."""

    def __init__(self, response: requests.Response, body: bytes) -> None:
        super().__init__()
        vars(self).update(vars(response))
        self._content = body
        self._content_consumed = True

    def json(self, **_: Any) -> Any:
        """The document, wrapped. Raises SourceError for a body that is no JSON."""
        try:
            document = decode_document(self.content)
        except NOT_JSON:
            raise SourceError("the response is no JSON: is this the address of a Prometheus?") from None
        return {"data": {"result": document}}


class BoundedAdapter(HTTPAdapter):
    """Sends a request and reads its body, within limits."""

    def __init__(self, settings: PrometheusSettings, clock: Clock) -> None:
        super().__init__(pool_maxsize=settings.concurrency)
        self._settings = settings
        self._clock = clock

    def send(self, request: requests.PreparedRequest, *_: Any, **options: Any) -> requests.Response:
        """Raises SourceError for another status than 200, too many bytes and too many seconds."""
        deadline = self._clock.monotonic() + self._settings.timeout
        options = {**options, "stream": True, "timeout": (CONNECT_TIMEOUT, self._settings.timeout)}
        response = super().send(_as_form(request) if len(request.url or "") > MAX_URL else request, **options)
        try:
            body = self._body(response, deadline)
        finally:
            response.close()
        if response.status_code != 200:
            raise _refused(response.status_code, body, "Authorization" in request.headers)
        return WholeResponse(response, body)

    def _body(self, response: requests.Response, deadline: float) -> bytes:
        limit, body = self._settings.max_body_bytes, BytesIO()  # a list would need twice the memory when it is joined
        # read1 returns what has arrived: a body that arrives byte by byte would block iter_content forever.
        while chunk := response.raw.read1(_CHUNK_BYTES, decode_content=True):
            if body.tell() + len(chunk) > limit:
                raise QueryTooLarge(f"the response is larger than {limit} bytes (prometheus.maxBodyBytes)")
            if self._clock.monotonic() > deadline:
                timeout = f"{self._settings.timeout:g} s"
                raise QueryTooLarge(f"the response took longer than {timeout} (prometheus.timeout)")
            body.write(chunk)
        return body.getvalue()


def _as_form(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """The same query, with its parameters in the body."""
    form = request.copy()
    form.method = "POST"
    form.url, _, parameters = str(request.url).partition("?")
    form.headers["Content-Type"] = "application/x-www-form-urlencoded"
    form.prepare_body(parameters, None)
    return form


def _refused(status: int, body: bytes, is_authenticated: bool) -> SourceError:
    """The error for a status, with the error text of Prometheus."""
    reason = f": {text[:200]}" if (text := error_text(body)) else ""
    if status in (401, 403):
        required = "credentials are required: set collector.prometheus.bearerTokenFile or basicAuthentication"
        return Refused(f"{status}, {'the credentials are rejected' if is_authenticated else required}{reason}")
    if 300 <= status < 400:
        return SourceError(f"{status}, a redirect, which is not followed: use the final address")
    if status == 404:
        return SourceError("404: is this the address of Prometheus, including its path prefix?")
    # 422: too many samples, chunks or series. 503 with a timeout: the query timeout of Prometheus.
    if status in (413, 422) or "timed out" in reason or "timeout" in reason:
        return QueryTooLarge(f"the query is too large for Prometheus ({status}{reason})")
    return (Unavailable if status in _BUSY else SourceError)(f"{status}{reason}")


def _secret(path: str) -> str:
    try:
        text = read_bounded_text(path, SECRET_LIMIT).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"cannot read {path}: {failure_reason(error)}") from None
    if not text or not text.isprintable():
        raise SourceError(f"{path} holds no secret on one line")
    return text


def authentication(settings: PrometheusSettings) -> Callable[[requests.PreparedRequest], Any] | None:
    """Reads the secret for every request: ServiceAccount tokens change every hour."""
    token_file, basic = settings.bearer_token_file, settings.basic_authentication

    def authenticate(request: requests.PreparedRequest) -> Any:
        if basic is not None:
            return HTTPBasicAuth(basic.username, _secret(basic.password_file))(request)
        request.headers["Authorization"] = f"Bearer {_secret(token_file or '')}"
        return request

    return authenticate if token_file or basic else None


def session(settings: PrometheusSettings) -> requests.Session:
    """A session that uses the settings only and nothing from the environment (.netrc would replace our token)."""
    opened = requests.Session()
    opened.trust_env = False
    opened.verify = settings.ca_file or True
    if settings.cert_file and settings.key_file:
        opened.cert = (settings.cert_file, settings.key_file)
    return opened
