"""Usage from load-watcher, which schedulers of the Trimaran family use: GET /watcher, means of nodes in percent.

It returns a mean over the 15 (or 10, or 5) minutes that end where its window ends. It does not return
the times of its samples, so that end is used as their time. It does not return their number either, so the collector
counts the responses that contain the node: a window is covered if there were responses throughout it.
"""

import asyncio
import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Annotated, Literal

import aiohttp
import msgspec

from equipoise.collector.decisions.query import MetricQuery, Origin, ResourceName, Sample, SourceError, series_name
from equipoise.collector.settings import CollectorSettings, LoadWatcherSettings
from equipoise.collector.sources import MetricSource
from equipoise.collector.sources.polling import PollingSource
from equipoise.contracts.bounds import LATEST
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import Kube
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.failure_reason import failure_reason

WINDOW_LENGTHS = (300.0, 600.0, 900.0)
"""Seconds of the windows that load-watcher supports."""

RETENTION = 4 * max(WINDOW_LENGTHS)

_RESOURCES: Mapping[str, ResourceName] = {"CPU": "cpu", "Memory": "memory"}


class WatcherMetric(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of a node, in percent of its capacity."""

    type: str = ""
    operator: str = ""
    value: float = math.nan


class WatcherNode(msgspec.Struct, frozen=True, kw_only=True):
    metrics: list[WatcherMetric] | None = None


class WatcherData(msgspec.Struct, frozen=True, kw_only=True):
    nodes: dict[str, msgspec.Raw] | None = msgspec.field(name="NodeMetricsMap", default=None)


class WatcherWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Unix seconds."""

    start: Annotated[int, msgspec.Meta(ge=0, le=int(LATEST))]
    end: Annotated[int, msgspec.Meta(ge=0, le=int(LATEST))]


class WatcherResponse(msgspec.Struct, frozen=True, kw_only=True):
    window: WatcherWindow
    data: WatcherData = WatcherData()


class LoadWatcherSource(PollingSource):
    """A MetricSource. Raises ConfigurationError for a kind of memory other than load-watcher's."""

    def __init__(
        self, settings: LoadWatcherSettings, *, memory: Literal["workingSet", "anonymous"], clock: Clock
    ) -> None:
        if memory != "workingSet":
            raise ConfigurationError(f"load.memory: {memory} is not allowed with collector.source: load-watcher")
        # The history records which responses contain a node. It also has the current usage, which is used if
        # load-watcher's own source has no windows.
        super().__init__(clock, interval=settings.interval, retention=RETENTION)
        self._settings = settings
        self._skew = 0.0
        self._means: dict[float, dict[str, dict[tuple[ResourceName, str], float]]] = {}
        """The values of the newest response, by length of its window and by node."""

        self._current_only = False

    def _now(self) -> float:
        """The server's time by the Date headers of its responses, to the second."""
        return self._clock.now() + self._skew

    def unsupported(self, query: MetricQuery) -> str:
        if query.subject == "pod":
            return "load-watcher has metrics of nodes only"
        if query.aggregate in ("p95", "max", "size"):
            return f"load-watcher does not measure the {query.aggregate}"
        if query.aggregate in ("mean", "deviation") and query.length not in WINDOW_LENGTHS:
            return "load-watcher has windows of 5, 10 and 15 minutes only"
        return ""

    async def query(self, query: MetricQuery) -> list[Sample]:
        if query.aggregate not in ("mean", "deviation"):
            return self._history.query(query)
        if self._current_only:
            samples = self._history.query(query)
            return [msgspec.structs.replace(sample, share_of_capacity=True) for sample in samples]
        key = (query.resource, "AVG" if query.aggregate == "mean" else "STD")
        return [
            Sample(
                origin=Origin(node=node), series=series_name({"node": node}), value=values[key], share_of_capacity=True
            )
            for node, values in self._means.get(query.length, {}).items()
            if key in values
        ]

    async def _poll(self) -> None:
        response = await self._fetch()
        end, length = float(response.window.end), float(response.window.end - response.window.start)
        means: dict[str, dict[tuple[ResourceName, str], float]] = {}
        current_only = False
        for node, figures in (response.data.nodes or {}).items():
            values = {
                (_RESOURCES[metric.type], metric.operator): metric.value / 100
                for metric in _metrics(figures)
                if metric.type in _RESOURCES
            }
            current_only |= ("cpu", "Latest") in values
            means[node] = values
            if values:
                self._history.add((node, "", ""), end, _latest(values, "cpu"), _latest(values, "memory"))
        self._current_only = current_only
        # A response about another window replaces the previous one: only the newest window is known.
        self._means = {length: means}

    async def _fetch(self) -> WatcherResponse:
        url = f"{self._settings.url.rstrip('/')}/watcher"
        timeout = aiohttp.ClientTimeout(total=self._settings.timeout)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
                session.get(url, allow_redirects=False) as response,
            ):
                if response.status != 200:
                    meaning = _MEANING.get(response.status, "")
                    raise SourceError(f"load-watcher responds with status {response.status}: {meaning}")
                body = await self._body(response)
                date = response.headers.get("Date")
                self._skew = 0.0 if date is None else _unix_seconds(date) - self._clock.now()
            return _DECODER.decode(body)
        except (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError) as error:
            raise SourceError(f"load-watcher does not respond: {failure_reason(error)}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise SourceError(f"the response is not load-watcher's ({error}): is this its address?") from None

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        limit = self._settings.max_body_bytes
        chunks, size = [], 0
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > limit:
                raise SourceError(f"the response is larger than loadWatcher.maxBodyBytes ({limit} bytes)")
            chunks.append(chunk)
        return b"".join(chunks)


_DECODER = msgspec.json.Decoder(WatcherResponse)
_NODE_DECODER = msgspec.json.Decoder(WatcherNode)

_MEANING = {500: "it has no metrics yet, or its own source is unavailable", 503: "its own source is unavailable"}


def _metrics(node: msgspec.Raw) -> list[WatcherMetric]:
    """The figures of one node; NaN if they cannot be read, so that only this node is unknown."""
    try:
        return _NODE_DECODER.decode(node).metrics or []
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [WatcherMetric(type=kind, operator="AVG") for kind in _RESOURCES]


def _latest(values: Mapping[tuple[ResourceName, str], float], resource: ResourceName) -> float:
    return values.get((resource, "Latest"), values.get((resource, "AVG"), math.nan))


def _unix_seconds(date: str) -> float:
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError, TypeError):
        raise SourceError("load-watcher's response has no valid date") from None


def open_source(settings: CollectorSettings, load: LoadSettings, clock: Clock, _: Kube) -> MetricSource:
    return LoadWatcherSource(settings.load_watcher, memory=load.memory, clock=clock)
