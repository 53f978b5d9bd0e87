"""Usage from Prometheus. Only this folder touches prometheus-api-client, in a few threads of its own."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.exceptions import HTTPError

from equipoise.collector.decisions.query import Ask, Sample, SourceError
from equipoise.collector.settings import PrometheusSettings
from equipoise.collector.sources import transport
from equipoise.collector.sources.names import addresses, by_name, of_nodes
from equipoise.collector.sources.profiles import PROFILES
from equipoise.collector.sources.profiles.profile import MemoryKind
from equipoise.collector.sources.queries import milliseconds, selector
from equipoise.collector.sources.samples import Labels, moment, result, spacings, vector
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.process.clock import Clock

_ATTEMPTS = 3

NAMES_LENGTH = 300.0
"""Seconds back within which a node's address was told: kube-state-metrics may restart in between."""

NAMES_KEPT = 8
"""Moments whose addresses are remembered."""


class PrometheusSource:
    """A MetricSource. Raises ConfigurationError at once when the profile cannot measure the wanted kind of memory."""

    def __init__(self, settings: PrometheusSettings, *, memory: MemoryKind, clock: Clock) -> None:
        self._settings = settings
        self._profile = PROFILES[settings.profile](settings)
        if memory not in self._profile.memory:
            known = " or ".join(self._profile.memory)
            raise ConfigurationError(
                f"load.memory: {memory} is not allowed with collector.prometheus.profile {settings.profile}: "
                f"its metrics know {known} only"
            )
        self._usage = {"cpu": self._profile.cpu, "memory": self._profile.memory[memory]}
        self._clock = clock
        self._labels = Labels(settings.node_labels)
        self._names: dict[float, dict[str, str]] = {}
        self._names_lock = asyncio.Lock()
        # A trailing slash would give //api/v1; the library mounts an adapter of its own, so ours comes after it.
        self._client: Any = PrometheusConnect(
            url=settings.url.rstrip("/"),
            headers=dict(transport.headers(settings)),
            auth=transport.authentication(settings),
            session=(opened := transport.session(settings)),
            timeout=settings.timeout,
        )
        adapter = transport.BoundedAdapter(
            seconds=settings.timeout, body_limit=settings.body_limit, clock=clock, connections=settings.concurrency
        )
        opened.mount(self._client.url, adapter)
        self._threads = ThreadPoolExecutor(settings.concurrency, thread_name_prefix="prometheus")
        self._slots = asyncio.Semaphore(settings.concurrency)

    async def run(self) -> None:
        """Prometheus remembers by itself."""

    async def time(self) -> float:
        """Prometheus' own time: a query without one is evaluated now."""
        return moment(await self._query("time()", None, lambda document: result(document, "scalar", "vector")))

    def cannot(self, question: Ask) -> str:
        if self._text(question) is not None:
            return ""
        asked = f"the {question.what} of {question.resource} of {question.subject}s"
        return f"profile {self._settings.profile} does not measure {asked}"

    async def ask(self, question: Ask) -> list[Sample]:
        text = self._text(question)
        if text is None:
            raise SourceError(self.cannot(question))
        self._labels.turn(self._clock.monotonic())
        names = await self._node_names(question.at)
        parse, kind = (spacings, "matrix") if question.what == "spacing" else (vector, "vector")

        # In the thread, as all of it is: 150,000 samples would hold everything else up.
        def read(document: Any) -> list[Sample]:
            samples = parse(result(document, kind), question.subject, self._labels)
            samples = of_nodes(samples, names) if names else samples
            return by_name(samples) if self._profile.names_only else samples

        answer: list[Sample] = await self._query(text, question.at, read)
        return answer

    def _text(self, question: Ask) -> str | None:
        usage = self._usage[question.resource].get(question.subject)
        if usage is None:
            return None
        text = usage.query(question, self._settings.matchers)
        if text is None or not question.least:
            return text
        count = usage.query(msgspec.structs.replace(question, what="count", least=0.0), self._settings.matchers)
        alike = " on (namespace, pod)" if self._profile.names_only else ""
        return f"({text}) and{alike} ({count}) >= {question.least:g}"

    async def _node_names(self, at: float) -> dict[str, str]:
        """By address the node that had it at that time; asked once for all questions about one moment."""
        if not self._profile.node_info:
            return {}
        async with self._names_lock:
            if at not in self._names:
                info = selector(self._profile.node_info, self._settings.matchers)
                text = f"max by (node, internal_ip) (last_over_time({info}[{milliseconds(NAMES_LENGTH)}]))"
                told = await self._query(text, at, lambda document: addresses(result(document, "vector")))
                # Rounds of several windows are under way at once, each with a moment of its own.
                kept = list(self._names.items())[1 - NAMES_KEPT :]
                self._names = {**dict(kept), at: told}
            return self._names[at]

    def close(self) -> None:
        """Queries under way end by themselves, within their timeout."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    async def _query(self, text: str, at: float | None, read: Callable[[Any], Any]) -> Any:
        # A slot is held only while a thread works on it, so that waiting in the queue does not count as slowness.
        async with self._slots:
            loop = asyncio.get_running_loop()
            try:
                # The thread ends itself by the transport's bounds; this one is for the day they fail.
                async with asyncio.timeout(_ATTEMPTS * (self._settings.timeout + transport.CONNECT_TIMEOUT)):
                    return await loop.run_in_executor(self._threads, self._ask, text, at, read)
            except TimeoutError:
                raise SourceError("the query did not end in time") from None

    def _ask(self, text: str, at: float | None, read: Callable[[Any], Any]) -> Any:
        parameters = {"timeout": f"{self._settings.timeout:g}s"}
        if at is not None:
            parameters["time"] = f"{at:.3f}"
        try:
            return read(self._client.custom_query(text, parameters))
        except PrometheusApiClientException as error:
            raise SourceError(_short(str(error))) from None
        except (requests.RequestException, HTTPError, OSError) as error:
            raise SourceError(_cause(error)) from None


def _cause(error: BaseException) -> str:
    """The innermost reason: the outer ones repeat the whole query."""
    while (inner := error.__cause__ or error.__context__ or getattr(error, "reason", None)) is not None:
        if not isinstance(inner, BaseException):
            break
        error = inner
    return _short(f"{error.__class__.__name__}: {error}")


def _short(text: str) -> str:
    return text if len(text) <= 300 else text[:299] + "…"
