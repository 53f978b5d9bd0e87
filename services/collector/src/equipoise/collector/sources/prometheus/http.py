"""HTTP to Prometheus, with the limits that the client library does not set.

A `requests` session whose adapter refuses redirects (a token must not follow one), limits the size and duration of a
response, and retries a few times. The client library keeps only `data.result` and drops `warnings`, so `Response.json`
puts the whole document where the library expects the result.
"""

from collections.abc import Callable
from io import BytesIO
from typing import Any

import msgspec
import requests
from requests.adapters import HTTPAdapter
from requests.auth import HTTPBasicAuth
from urllib3.util.retry import Retry

from equipoise.collector.decisions.query import SourceError
from equipoise.collector.settings import PrometheusSettings
from equipoise.collector.sources.prometheus.json_document import decode_document
from equipoise.runtime.process.bounded_files import SECRET_LIMIT, read_bounded_text
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.failure_reason import failure_reason

CONNECT_TIMEOUT = 3.05
"""Seconds; a little above a multiple of 3, the time after which TCP sends its first packet again."""

_CHUNK_BYTES = 2**16


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
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise SourceError("the response is no JSON: is this the address of a Prometheus?") from None
        return {"data": {"result": document}}


class BoundedAdapter(HTTPAdapter):
    """Sends a request and reads its body, within limits."""

    def __init__(self, *, timeout: float, max_body_bytes: int, clock: Clock, connections: int) -> None:
        # Statuses and refused connections are retried soon; a server's Retry-After may be an hour.
        retry = Retry(
            total=2, connect=2, read=1, status=2, redirect=0, other=0, backoff_factor=0.2,
            status_forcelist=[429, 502, 503, 504], raise_on_status=False, respect_retry_after_header=False,
        )  # fmt: skip
        super().__init__(max_retries=retry, pool_maxsize=connections)
        self._timeout = timeout
        self._max_body_bytes = max_body_bytes
        self._clock = clock

    def send(self, request: requests.PreparedRequest, *_: Any, **options: Any) -> requests.Response:
        """Raises SourceError for a redirect, too many bytes and too many seconds."""
        deadline = self._clock.monotonic() + self._timeout
        options = {**options, "stream": True, "timeout": (CONNECT_TIMEOUT, self._timeout)}
        response = super().send(request, **options)
        try:
            if response.is_redirect:
                raise SourceError("the server responds with a redirect, which is not followed: set its final address")
            return WholeResponse(response, self._body(response, deadline))
        finally:
            response.close()

    def _body(self, response: requests.Response, deadline: float) -> bytes:
        body = BytesIO()  # a list of chunks would need twice the memory when it is joined
        # read1 returns what has arrived: a body that arrives byte by byte would block iter_content forever.
        while chunk := response.raw.read1(_CHUNK_BYTES, decode_content=True):
            if body.tell() + len(chunk) > self._max_body_bytes:
                raise SourceError(f"the response is larger than prometheus.maxBodyBytes ({self._max_body_bytes} bytes)")
            if self._clock.monotonic() > deadline:
                raise SourceError(f"the response took longer than prometheus.timeout ({self._timeout:g} s)")
            body.write(chunk)
        return body.getvalue()


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
