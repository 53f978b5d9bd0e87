"""HTTP to a Prometheus that is asked much: every answer bounded in bytes and time, refusals as sentences."""

import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec

from equipoise.collector.decisions.query import SourceError
from equipoise.collector.settings import PrometheusSettings
from equipoise.collector.sources.samples import moment, result
from equipoise.lab.record.options import RecordError
from equipoise.lab.record.queries import Series
from equipoise.runtime.process.clock import Clock

CONNECT_SECONDS = 5.0
PAUSES = (1.0, 5.0, 15.0)
"""Seconds before each new attempt: a Prometheus that restarts is away for about that long."""

T = TypeVar("T")

_BUSY = frozenset({429, 502, 503, 504})


class TooLarge(RecordError):
    """More than the server wants to compute, or than we want to hold, at once: ask for less."""


class _Again(Exception):
    """It may go better in a while; the message says what did not."""


class Prometheus:
    """Made by `connect_prometheus`. Every method raises RecordError, or its kind TooLarge, and nothing else."""

    def __init__(self, settings: PrometheusSettings, session: aiohttp.ClientSession, clock: Clock) -> None:
        self._settings = settings
        self._session = session
        self._clock = clock
        self.queries = 0

    async def time(self) -> float:
        """Prometheus' own time, in Unix seconds. Asked once: who gave a wrong address wants to know it soon."""
        kinds = ("scalar", "vector")
        return await self._ask("query", {"query": "time()"}, lambda document: moment(result(document, *kinds)), ())

    async def vector(self, text: str, at: float) -> list[Series]:
        """What there is at an instant; the values are left out, as nobody here asks for them."""
        parameters = {"query": text, "time": f"{at:.3f}"}
        return await self._ask("query", parameters, lambda document: _series(result(document, "vector")))

    async def matrix(self, text: str, start: float, end: float, step: float) -> list[Series]:
        """What there is at each of some instants, `start` and `end` (if a step falls on it) among them."""
        times = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}
        parameters = {"query": text, **times}
        return await self._ask("query_range", parameters, lambda document: _series(result(document, "matrix")))

    async def _ask(
        self, path: str, parameters: Mapping[str, str], read: Callable[[Any], T], pauses: Sequence[float] = PAUSES
    ) -> T:
        for pause in (*pauses, None):
            try:
                return read(await self._send(path, parameters))
            except SourceError as error:
                raise RecordError(f"Prometheus at {self._settings.url}: {error}") from None
            except _Again as error:
                if pause is None:
                    raise RecordError(f"{error}. Is the address right, and reachable from here?") from None
                await self._clock.sleep(pause)
        raise AssertionError("unreachable")

    async def _send(self, path: str, parameters: Mapping[str, str]) -> Any:
        self.queries += 1
        url = f"{self._settings.url.rstrip('/')}/api/v1/{path}"
        try:
            # A token must not follow a redirect.
            async with self._session.get(
                url, params=parameters, headers=self._authorization(), allow_redirects=False
            ) as response:
                return self._judged(response.status, await self._body(response))
        except aiohttp.ConnectionTimeoutError:
            raise _Again(f"Prometheus at {self._settings.url} does not answer") from None
        except TimeoutError:
            raise TooLarge(f"Prometheus gave no whole answer within {self._settings.timeout:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise _Again(f"Prometheus at {self._settings.url} cannot be reached: {error}") from None

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        chunks, size = [], 0
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > self._settings.body_limit:
                raise TooLarge(f"Prometheus' answer is larger than {self._settings.body_limit} bytes")
            chunks.append(chunk)
        return b"".join(chunks)

    def _judged(self, status: int, body: bytes) -> Any:
        """The document; or what is wrong, by the status and by what Prometheus says in its own words."""
        if status == 200:
            try:
                return msgspec.json.decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                raise SourceError("the answer is no JSON: is this the address of a Prometheus?") from None
        said = _reason(body)
        if status in (401, 403):
            given = self._settings.bearer_token_file or self._settings.basic_authentication
            advice = "it does not take our credentials" if given else "it wants credentials: give a bearer token file"
            raise SourceError(f"{status}, {advice}{said}")
        if 300 <= status < 400:
            raise SourceError(f"{status}, a redirect, which is not followed: give its final address")
        if status == 404:
            raise SourceError("404, nothing is there: is this the address of a Prometheus, its path prefix included?")
        # 422: too many samples, chunks, series. 503 with a timeout: it was Prometheus' own.
        if status in (413, 422) or "timed out" in said or "timeout" in said:
            raise TooLarge(f"Prometheus will not compute that much at once ({status}{said})")
        if status in _BUSY:
            raise _Again(f"Prometheus at {self._settings.url} is away or busy ({status}{said})")
        raise SourceError(f"{status}{said}")

    def _authorization(self) -> dict[str, str]:
        """Read for every request: tokens of ServiceAccounts change every hour, and a recording may last longer."""
        if self._settings.bearer_token_file:
            return {"Authorization": f"Bearer {_secret(self._settings.bearer_token_file)}"}
        if basic := self._settings.basic_authentication:
            return {"Authorization": aiohttp.BasicAuth(basic.username, _secret(basic.password_file)).encode()}
        return {}


@asynccontextmanager
async def connect_prometheus(settings: PrometheusSettings, clock: Clock) -> AsyncIterator[Prometheus]:
    """No request is made yet. Raises RecordError for certificates that cannot be read."""
    timeout = aiohttp.ClientTimeout(total=settings.timeout, sock_connect=CONNECT_SECONDS)
    connector = aiohttp.TCPConnector(ssl=_trusted(settings), limit=settings.concurrency)
    headers = {"Accept": "application/json", "User-Agent": "equipoise-lab", **settings.headers}
    # Nothing of the environment: a .netrc would replace our token.
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers, trust_env=False) as session:
        yield Prometheus(settings, session, clock)


def _trusted(settings: PrometheusSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.cert_file:
            context.load_cert_chain(settings.cert_file, settings.key_file)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(file for file in (settings.ca_file, settings.cert_file, settings.key_file) if file)
        raise RecordError(f"cannot read the certificates of Prometheus ({files}): {error}") from None
    return context


def _secret(path: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"cannot read {path}: {error.__class__.__name__}") from None
    if not text or not text.isprintable():
        raise RecordError(f"{path} holds no secret on one line")
    return text


def _series(answer: Any) -> list[Series]:
    """What is no series, or no pair of a time and a value, is passed over."""
    if not isinstance(answer, list):
        raise SourceError("the answer's result is no list")
    return [
        Series(
            labels={name: text for name, text in element["metric"].items() if isinstance(text, str)},
            values=[pair for pair in _listed(element.get("values")) if _is_pair(pair)],
        )
        for element in answer
        if isinstance(element, dict) and isinstance(element.get("metric"), dict)
    ]


def _listed(values: Any) -> list[Any]:
    return values if isinstance(values, list) else []


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], int | float)


def _reason(body: bytes) -> str:
    """What Prometheus says, as the end of a sentence; empty when it says nothing that people can read."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    said = document.get("error") if isinstance(document, dict) else None
    return f": {said[:200]}" if isinstance(said, str) and said else ""
