"""The Prometheus client of the collector, for a recording. It retries after pauses; errors end the recording."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from equipoise.collector.decisions.query import SourceError
from equipoise.collector.settings import PrometheusSettings
from equipoise.collector.sources.prometheus.client import PrometheusClient
from equipoise.collector.sources.prometheus.http import Unavailable
from equipoise.collector.sources.prometheus.samples import decoded, elements, result_of
from equipoise.contracts.bounds import LATEST
from equipoise.lab.record.options import RecordError
from equipoise.lab.record.queries import Series
from equipoise.runtime.process.clock import Clock

PAUSES = (1.0, 5.0, 15.0)
"""Seconds before each retry. Together they are about as long as Prometheus takes to restart."""


@asynccontextmanager
async def connect_prometheus(settings: PrometheusSettings, clock: Clock) -> AsyncIterator[PrometheusClient]:
    """A client of Prometheus, which is not contacted yet. Errors of queries leave the context as RecordError."""
    client = PrometheusClient(settings, clock, PAUSES)
    try:
        yield client
    except Unavailable as error:
        raise RecordError(
            f"Prometheus at {settings.shown_url} cannot be reached: {error}. Is the address right, and reachable from "
            "here?"
        ) from None
    except SourceError as error:
        raise RecordError(f"Prometheus at {settings.shown_url}: {error}") from None
    finally:
        client.close()


def vector_of(document: Any) -> list[Series]:
    """The series of an instant query, without values."""
    return _series(result_of(document, "vector"))


def matrix_of(document: Any) -> list[Series]:
    """The series of a range query."""
    return _series(result_of(document, "matrix"))


def _series(response: Any) -> list[Series]:
    """The valid series of a response, with their valid pairs of time and value."""
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
