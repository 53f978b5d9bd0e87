"""HTTP client for Prometheus with many queries: limits on size and time of responses, and readable errors."""

import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiohttp
import msgspec

from equipoise.collector.decisions.query import SourceError
from equipoise.collector.settings import PrometheusSettings
from equipoise.collector.sources.prometheus.json_document import decode_document
from equipoise.collector.sources.prometheus.samples import decoded, elements, result_of, time_of
from equipoise.contracts.bounds import LATEST
from equipoise.lab.record.options import RecordError
from equipoise.lab.record.queries import Series
from equipoise.runtime.process.bounded_files import SECRET_LIMIT, read_bounded_text
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.failure_reason import failure_reason

CONNECT_SECONDS = 5.0
PAUSES = (1.0, 5.0, 15.0)
"""Seconds before each retry: about as long as Prometheus takes to restart."""

T = TypeVar("T")

_BUSY = frozenset({429, 502, 503, 504})


class QueryTooLarge(RecordError):
    """The query is too large for the server, or its response for us: request less."""


class _Retryable(Exception):
    """A failure that may be temporary."""


class Prometheus:
    """Created by `connect_prometheus`. Methods raise RecordError, or its subclass QueryTooLarge, and nothing else."""

    def __init__(self, settings: PrometheusSettings, session: aiohttp.ClientSession, clock: Clock) -> None:
        self._settings = settings
        self._session = session
        self._clock = clock
        self.queries = 0

    async def time(self) -> float:
        """Prometheus' time, in Unix seconds. Without retries, so a wrong address is reported at once."""
        kinds = ("scalar", "vector")
        return await self._request(
            "query", {"query": "time()"}, lambda document: time_of(result_of(document, *kinds)), ()
        )

    async def vector(self, text: str, at: float) -> list[Series]:
        """Result of an instant query, without values."""
        parameters = {"query": text, "time": f"{at:.3f}"}
        return await self._request("query", parameters, lambda document: _series(result_of(document, "vector")))

    async def matrix(self, text: str, start: float, end: float, step: float) -> list[Series]:
        """Result of a range query, including `start` and, if a step falls on it, `end`."""
        times = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}
        parameters = {"query": text, **times}
        return await self._request("query_range", parameters, lambda document: _series(result_of(document, "matrix")))

    async def _request(
        self, path: str, parameters: Mapping[str, str], read: Callable[[Any], T], pauses: Sequence[float] = PAUSES
    ) -> T:
        for pause in (*pauses, None):
            try:
                return read(await self._send(path, parameters))
            except SourceError as error:
                raise RecordError(f"Prometheus at {self._settings.shown_url}: {error}") from None
            except _Retryable as error:
                if pause is None:
                    raise RecordError(f"{error}. Is the address right, and reachable from here?") from None
                await self._clock.sleep(pause)
        raise AssertionError("unreachable")

    async def _send(self, path: str, parameters: Mapping[str, str]) -> Any:
        self.queries += 1
        url = f"{self._settings.url.rstrip('/')}/api/v1/{path}"
        try:
            # Do not send the token to a redirect.
            async with self._session.get(
                url, params=parameters, headers=self._authorization(), allow_redirects=False
            ) as response:
                return self._decode(response.status, await self._body(response))
        except aiohttp.ConnectionTimeoutError:
            raise _Retryable(f"Prometheus at {self._settings.shown_url} does not respond") from None
        except TimeoutError:
            raise QueryTooLarge(f"Prometheus sent no complete response within {self._settings.timeout:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            why = failure_reason(error)
            raise _Retryable(f"Prometheus at {self._settings.shown_url} cannot be reached: {why}") from None

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        chunks, size = [], 0
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > self._settings.max_body_bytes:
                raise QueryTooLarge(f"Prometheus' response is larger than {self._settings.max_body_bytes} bytes")
            chunks.append(chunk)
        return b"".join(chunks)

    def _decode(self, status: int, body: bytes) -> Any:
        """The decoded body. Raises errors by status and by the error text of Prometheus."""
        if status == 200:
            try:
                return decode_document(body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                raise SourceError("the response is not JSON: is this the address of a Prometheus?") from None
        reason = _reason(body)
        if status in (401, 403):
            given = self._settings.bearer_token_file or self._settings.basic_authentication
            advice = "the credentials are rejected" if given else "credentials are required: use a bearer token file"
            raise SourceError(f"{status}, {advice}{reason}")
        if 300 <= status < 400:
            raise SourceError(f"{status}, a redirect, which is not followed: use the final address")
        if status == 404:
            raise SourceError("404: is this the address of Prometheus, including its path prefix?")
        # 422: too many samples, chunks or series. 503 with a timeout: the query timeout of Prometheus.
        if status in (413, 422) or "timed out" in reason or "timeout" in reason:
            raise QueryTooLarge(f"the query is too large for Prometheus ({status}{reason})")
        if status in _BUSY:
            raise _Retryable(f"Prometheus at {self._settings.shown_url} is unavailable ({status}{reason})")
        raise SourceError(f"{status}{reason}")

    def _authorization(self) -> dict[str, str]:
        """Read for every request: ServiceAccount tokens expire after an hour, and a recording may take longer."""
        if self._settings.bearer_token_file:
            return {"Authorization": f"Bearer {_secret(self._settings.bearer_token_file)}"}
        if basic := self._settings.basic_authentication:
            return {"Authorization": aiohttp.BasicAuth(basic.username, _secret(basic.password_file)).encode()}
        return {}


@asynccontextmanager
async def connect_prometheus(settings: PrometheusSettings, clock: Clock) -> AsyncIterator[Prometheus]:
    """Sends no request yet. Raises RecordError for invalid certificates."""
    timeout = aiohttp.ClientTimeout(total=settings.timeout, sock_connect=CONNECT_SECONDS)
    connector = aiohttp.TCPConnector(ssl=_trusted(settings), limit=settings.concurrency)
    headers = {"Accept": "application/json", "User-Agent": "equipoise-lab", **settings.headers}
    # Ignore the environment: a .netrc would replace the token.
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers, trust_env=False) as session:
        yield Prometheus(settings, session, clock)


def _trusted(settings: PrometheusSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.cert_file:
            context.load_cert_chain(settings.cert_file, settings.key_file)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(file for file in (settings.ca_file, settings.cert_file, settings.key_file) if file)
        raise RecordError(f"cannot read the certificates of Prometheus ({files}): {failure_reason(error)}") from None
    return context


def _secret(path: str) -> str:
    try:
        text = read_bounded_text(path, SECRET_LIMIT).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"cannot read {path}: {failure_reason(error)}") from None
    if not text or not text.isprintable():
        raise RecordError(f"{path} must contain one line with a secret")
    return text


def _series(response: Any) -> list[Series]:
    """Invalid series, and invalid pairs of time and value, are skipped."""
    return [
        Series(
            labels={name: text for name, text in labels.items() if isinstance(text, str)},
            values=_pairs(decoded(element.values)),
        )
        for element in elements(response)
        if isinstance(labels := decoded(element.metric), dict)
    ]


def _pairs(values: Any) -> list[Any]:
    pairs = values if isinstance(values, list) else []
    return [
        pair
        for pair in pairs
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], int | float) and 0 <= pair[0] <= LATEST
    ]


def _reason(body: bytes) -> str:
    """The error text of Prometheus as the end of a sentence; empty without one."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    text = document.get("error") if isinstance(document, dict) else None
    return f": {text[:200]}" if isinstance(text, str) and text else ""
