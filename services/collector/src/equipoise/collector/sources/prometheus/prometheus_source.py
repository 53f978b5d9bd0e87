"""A metric source on prometheus-api-client, which runs in a few threads of its own."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.exceptions import HTTPError

from equipoise.collector.decisions.profiles import PROFILES
from equipoise.collector.decisions.profiles.query_profile import Matchers, MemoryKind
from equipoise.collector.decisions.query import MetricQuery, Sample, SourceError
from equipoise.collector.settings import CollectorSettings, PrometheusSettings
from equipoise.collector.sources import MetricSource
from equipoise.collector.sources.prometheus import http
from equipoise.collector.sources.prometheus.samples import (
    LabelCache,
    identified_by_name,
    result_of,
    shortened,
    spacings,
    time_of,
    vector,
)
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import Kube
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.failure_reason import failure_reason

_ATTEMPTS = 3


class PrometheusSource:
    """A MetricSource. Raises ConfigurationError when the profile cannot measure the configured kind of memory."""

    def __init__(self, settings: PrometheusSettings, *, memory: MemoryKind, clock: Clock) -> None:
        self._settings = settings
        self._profile = PROFILES[settings.profile](settings.custom)
        if memory not in self._profile.memory:
            supported = " or ".join(self._profile.memory)
            raise ConfigurationError(
                f"load.memory: {memory} is not allowed with collector.prometheus.profile {settings.profile}: "
                f"its metrics have {supported} only"
            )
        self._usage = {"cpu": self._profile.cpu, "memory": self._profile.memory[memory]}
        self._clock = clock
        self._labels = LabelCache(settings.node_labels)
        # A trailing slash would give //api/v1; the library mounts an adapter of its own, so ours comes after it.
        self._client: Any = PrometheusConnect(
            url=settings.url.rstrip("/"),
            headers={"Accept": "application/json", "User-Agent": "equipoise-collector", **settings.headers},
            auth=http.authentication(settings),
            session=(opened := http.session(settings)),
            timeout=settings.timeout,
        )
        adapter = http.BoundedAdapter(
            timeout=settings.timeout, max_body_bytes=settings.max_body_bytes, clock=clock,
            connections=settings.concurrency,
        )  # fmt: skip
        opened.mount(self._client.url, adapter)
        self._threads = ThreadPoolExecutor(settings.concurrency, thread_name_prefix="prometheus")
        self._slots = asyncio.Semaphore(settings.concurrency)

    async def run(self) -> None:
        """Prometheus keeps the samples itself."""

    async def time(self) -> float:
        """Prometheus' own time: a query without a time is evaluated now."""
        return time_of(await self._request("time()", None, lambda document: result_of(document, "scalar", "vector")))

    def unsupported(self, query: MetricQuery) -> str:
        if self._promql(query) is not None:
            return ""
        missing = f"the {query.aggregate} of {query.resource} of {query.subject}s"
        return f"profile {self._settings.profile} does not measure {missing}"

    async def query(self, query: MetricQuery) -> list[Sample]:
        promql = self._promql(query)
        if promql is None:
            raise SourceError(self.unsupported(query))
        self._labels.rotate(self._clock.monotonic())
        kind = "matrix" if query.aggregate == "spacing" else "vector"

        # Runs in the thread: 150,000 samples would block the event loop.
        def read(document: Any) -> list[Sample]:
            samples = self._samples(result_of(document, kind), query)
            return identified_by_name(samples) if self._profile.names_only else samples

        samples: list[Sample] = await self._request(promql, query.at, read)
        return samples

    def _samples(self, result: Any, query: MetricQuery) -> list[Sample]:
        parse = spacings if query.aggregate == "spacing" else vector
        return parse(result, "node" if query.aggregate == "pods" else query.subject, self._labels)

    def _promql(self, query: MetricQuery) -> str | None:
        usage = self._usage[query.resource].get(query.subject)
        if usage is None:
            return None
        jobs = getattr(self._settings.jobs, f"{query.subject}s") or query.jobs
        matchers: Matchers = {**({"job": jobs} if jobs else {}), **self._settings.matchers}
        promql = usage.promql(query, matchers)
        uncountable = self._profile.names_only and query.subject == "node"
        if promql is None or not query.min_samples or uncountable:
            return promql
        count_query = msgspec.structs.replace(query, aggregate="count", min_samples=0.0)
        count = usage.promql(count_query, matchers)
        on = " on (namespace, pod)" if self._profile.names_only else ""
        return f"({promql}) and{on} ({count}) >= {query.min_samples:g}"

    def close(self) -> None:
        """Running queries end by themselves, within their timeout."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    async def _request(self, promql: str, at: float | None, read: Callable[[Any], Any]) -> Any:
        # A slot is held only while a thread works on it, so that the time in the queue does not count.
        async with self._slots:
            loop = asyncio.get_running_loop()
            try:
                # The adapter's limits end the thread; this timeout is a safeguard.
                async with asyncio.timeout(_ATTEMPTS * (self._settings.timeout + http.CONNECT_TIMEOUT)):
                    return await loop.run_in_executor(self._threads, self._send, promql, at, read)
            except TimeoutError:
                raise SourceError("the query did not end in time") from None

    def _send(self, promql: str, at: float | None, read: Callable[[Any], Any]) -> Any:
        parameters = {"timeout": f"{self._settings.timeout:g}s"}
        if at is not None:
            parameters["time"] = f"{at:.3f}"
        try:
            return read(self._client.custom_query(promql, parameters))
        except SourceError:
            raise
        except PrometheusApiClientException as error:
            raise SourceError(shortened(error)) from None
        except (requests.RequestException, HTTPError, OSError) as error:
            raise SourceError(_cause(error)) from None
        except Exception as error:  # whatever the response contains: only this query has no result
            raise SourceError(f"the response cannot be read: {type(error).__name__}: {shortened(error)}") from error


def _cause(error: BaseException) -> str:
    """The innermost reason: the outer ones repeat the whole query."""
    while (inner := error.__cause__ or error.__context__ or getattr(error, "reason", None)) is not None:
        if not isinstance(inner, BaseException):
            break
        error = inner
    return shortened(failure_reason(error))


def open_source(settings: CollectorSettings, load: LoadSettings, clock: Clock, _: Kube) -> MetricSource:
    return PrometheusSource(settings.prometheus, memory=load.memory, clock=clock)
