"""A client of Prometheus' HTTP API, based on prometheus-api-client. Each query runs in a thread."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import requests
from prometheus_api_client import PrometheusConnect
from urllib3.exceptions import HTTPError, ReadTimeoutError

from equipoise.collector.decisions.query import SourceError
from equipoise.collector.settings import PrometheusSettings
from equipoise.collector.sources.prometheus import http
from equipoise.collector.sources.prometheus.http import QueryTooLarge, Unavailable
from equipoise.collector.sources.prometheus.samples import result_of, shortened, time_of
from equipoise.runtime.async_tools.thread_pool import DaemonThreads
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.failure_reason import failure_reason

PAUSES = (0.1, 0.4)
"""Seconds before each retry. A server's Retry-After may be an hour, and is ignored."""

T = TypeVar("T")


class PrometheusClient:
    """Methods raise SourceError, or its subclasses Unavailable and QueryTooLarge, and nothing else.

    `read` turns the document of a response into the result. It runs in the thread: 150,000 samples would block the
    event loop.
    """

    def __init__(self, settings: PrometheusSettings, clock: Clock, pauses: Sequence[float] = PAUSES) -> None:
        """`pauses`: seconds before each retry of a query for which the server was not available."""
        self.queries = 0
        self._settings = settings
        self._clock = clock
        self._pauses = pauses
        self._parameters = {"timeout": f"{settings.timeout:g}s"}
        # A trailing slash would give //api/v1; the library mounts an adapter of its own, so ours comes after it.
        self._client: Any = PrometheusConnect(
            url=settings.url.rstrip("/"),
            headers={"Accept": "application/json", "User-Agent": "equipoise", **settings.headers},
            auth=http.authentication(settings),
            session=(opened := http.session(settings)),
            timeout=settings.timeout,
        )
        opened.mount(self._client.url, http.BoundedAdapter(settings, clock))
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._threads = DaemonThreads(settings.concurrency, "prometheus")

    async def time(self, *, retry: bool = True) -> float:
        """Prometheus' own time in Unix seconds: a query without a time is evaluated now."""
        kinds = ("scalar", "vector")
        return await self.query("time()", lambda document: time_of(result_of(document, *kinds)), retry=retry)

    async def query(self, promql: str, read: Callable[[Any], T], *, at: float | None = None, retry: bool = True) -> T:
        """An instant query. `at`: Unix seconds; None: now."""
        parameters = self._parameters if at is None else self._parameters | {"time": f"{at:.3f}"}
        return await self._request(lambda: read(self._client.custom_query(promql, parameters)), retry)

    async def query_range(self, promql: str, read: Callable[[Any], T], *, start: float, end: float, step: float) -> T:
        """A range query, including `start` and, if a step falls on it, `end`: Unix seconds, rounded to whole ones."""
        first, last = (datetime.fromtimestamp(at, UTC) for at in (start, end))
        return await self._request(
            lambda: read(self._client.custom_query_range(promql, first, last, f"{step:.3f}", self._parameters))
        )

    def close(self) -> None:
        """Running queries end by themselves, within their timeout. The process may end before."""
        self._threads.close()
        self._client.close()

    async def _request(self, send: Callable[[], T], retry: bool = True) -> T:
        for pause in self._pauses if retry else ():
            try:
                return await self._sent(send)
            except Unavailable:
                await self._clock.sleep(pause)
        return await self._sent(send)

    async def _sent(self, send: Callable[[], T]) -> T:
        # A slot is held only while a thread works on it, so that the time in the queue does not count.
        async with self._slots:
            self.queries += 1
            try:
                # The adapter's limits end the thread; this timeout is a safeguard.
                async with asyncio.timeout(2 * self._settings.timeout + http.CONNECT_TIMEOUT):
                    return await asyncio.wrap_future(self._threads.submit(lambda: _result(send)))
            except TimeoutError:
                raise SourceError("the query did not end in time") from None


def _result(send: Callable[[], T]) -> T:
    try:
        return send()
    except SourceError:
        raise
    except (requests.ReadTimeout, ReadTimeoutError) as error:
        raise QueryTooLarge(_cause(error)) from None
    except (requests.RequestException, HTTPError, OSError) as error:
        raise Unavailable(_cause(error)) from None
    except Exception as error:  # whatever the response contains: only this query has no result
        raise SourceError(f"the response cannot be read: {type(error).__name__}: {shortened(error)}") from error


def _cause(error: BaseException) -> str:
    """The innermost reason: the outer ones repeat the whole query."""
    while (inner := error.__cause__ or error.__context__ or getattr(error, "reason", None)) is not None:
        if not isinstance(inner, BaseException):
            break
        error = inner
    return shortened(failure_reason(error))
