"""Usage from load-watcher, which schedulers of the Trimaran family use: GET /watcher, means of nodes in percent.

It tells a mean over the 15 minutes (or 10, or 5) that end where its window ends; that end is the newest time it knows,
as it does not tell when the samples were taken. How many it had it does not tell either, so the collector counts the
answers that named the node: a window counts as covered when they came all through it.
"""

import asyncio
import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Literal

import aiohttp
import msgspec

from equipoise.collector.decisions.query import Ask, Resource, Sample, SourceError, series_of
from equipoise.collector.settings import LoadWatcherSettings
from equipoise.collector.sources.history import History
from equipoise.collector.sources.polled import Polled
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.process.clock import Clock

LENGTHS = (300.0, 600.0, 900.0)
"""Seconds of the windows that load-watcher knows."""

KEPT = 4 * max(LENGTHS)

_TYPES: Mapping[str, Resource] = {"CPU": "cpu", "Memory": "memory"}


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of a node, in percent of what it has."""

    type: str = ""
    operator: str = ""
    value: float = math.nan


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a node."""

    metrics: list[Metric] | None = None


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes, by name."""

    nodes: dict[str, Metrics] | None = msgspec.field(name="NodeMetricsMap", default=None)


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """What the figures are about, in Unix seconds."""

    start: int
    end: int


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of load-watcher."""

    window: Span
    data: Data = Data()


class LoadWatcherSource:
    """A MetricSource. Raises ConfigurationError when another kind of memory is wanted than load-watcher knows."""

    def __init__(
        self, settings: LoadWatcherSettings, *, memory: Literal["workingSet", "anonymous"], clock: Clock
    ) -> None:
        if memory != "workingSet":
            raise ConfigurationError(f"load.memory: {memory} is not allowed with collector.source: load-watcher")
        self._settings = settings
        self._clock = clock
        self._skew = 0.0
        self._answered = History(KEPT)
        """When a node was told of; a value of this moment where load-watcher's own source has no windows."""

        self._means: dict[float, dict[str, dict[tuple[Resource, str], float]]] = {}
        """By length of the window and node, the newest answer."""

        self._momentary = False
        self._polled = Polled(self._poll, settings.interval, clock)

    async def run(self) -> None:
        await self._polled.run()

    async def look(self) -> None:
        """Ask it once, now."""
        await self._polled.look()

    async def time(self) -> float:
        """As its answers are dated, to the second."""
        await self._polled.ready()
        return self._clock.now() + self._skew

    def cannot(self, question: Ask) -> str:
        if question.subject == "pod":
            return "load-watcher knows nodes only"
        if question.what in ("p95", "max"):
            return f"load-watcher does not tell the {question.what}"
        if question.what in ("mean", "deviation") and question.length not in LENGTHS:
            return "load-watcher knows windows of 5, 10 and 15 minutes only"
        return ""

    async def ask(self, question: Ask) -> list[Sample]:
        if question.what not in ("mean", "deviation"):
            return self._answered.answer(question)
        if self._momentary:
            told = self._answered.answer(question)
            return [msgspec.structs.replace(sample, of_capacity=True) for sample in told]
        operator = "AVG" if question.what == "mean" else "STD"
        return [
            Sample(
                node=node, series=series_of({"node": node}), value=values[question.resource, operator], of_capacity=True
            )
            for node, values in self._means.get(question.length, {}).items()
            if (question.resource, operator) in values
        ]

    def close(self) -> None:
        """Every poll closes its own connection."""

    async def _poll(self) -> None:
        watched = await self._fetch()
        end, length = float(watched.window.end), float(watched.window.end - watched.window.start)
        means: dict[str, dict[tuple[Resource, str], float]] = {}
        momentary = False
        for node, told in (watched.data.nodes or {}).items():
            values = {
                (_TYPES[metric.type], metric.operator): metric.value / 100
                for metric in told.metrics or ()
                if metric.type in _TYPES
            }
            momentary |= ("cpu", "Latest") in values
            means[node] = values
            if values:
                now = [_either(values, resource) for resource in ("cpu", "memory")]
                self._answered.add((node, "", ""), end, now[0], now[1])
        self._momentary = momentary
        # An answer about another window says nothing of the ones before: only the newest is known.
        self._means = {length: means}
        self._answered.forget(self._clock.now() + self._skew)

    async def _fetch(self) -> Watched:
        url = f"{self._settings.url.rstrip('/')}/watcher"
        timeout = aiohttp.ClientTimeout(total=self._settings.timeout)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
                session.get(url, allow_redirects=False) as response,
            ):
                if response.status != 200:
                    raise SourceError(f"load-watcher answers {response.status}: {_MEANING.get(response.status, '')}")
                body = await self._body(response)
                self._skew = (
                    _date(response.headers.get("Date")) - self._clock.now() if "Date" in response.headers else 0.0
                )
            return _DECODER.decode(body)
        except (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError) as error:
            raise SourceError(f"load-watcher does not answer: {error.__class__.__name__}: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise SourceError(f"the answer is not load-watcher's ({error}): is this its address?") from None

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        limit = self._settings.body_limit
        chunks, size = [], 0
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > limit:
                raise SourceError(f"the answer is larger than loadWatcher.bodyLimit ({limit} bytes)")
            chunks.append(chunk)
        return b"".join(chunks)


_DECODER = msgspec.json.Decoder(Watched)

_MEANING = {500: "it has no metrics yet, or its own source is away", 503: "its own source is away"}


def _either(values: Mapping[tuple[Resource, str], float], resource: Resource) -> float:
    return values.get((resource, "Latest"), values.get((resource, "AVG"), math.nan))


def _date(text: str | None) -> float:
    try:
        return parsedate_to_datetime(text or "").timestamp()
    except ValueError:
        raise SourceError("load-watcher's answer has no readable date") from None
