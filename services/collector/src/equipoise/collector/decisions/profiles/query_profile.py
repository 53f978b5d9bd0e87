"""A query profile: for each resource of nodes and pods, the PromQL for its usage; and parts of such queries."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from equipoise.collector.decisions.query import MetricQuery, Subject
from equipoise.collector.state.placement import PodName

MemoryKind = Literal["workingSet", "anonymous"]
"""The kinds of memory of `load.memory`."""


Matchers = Mapping[str, str | Sequence[str]]
"""Labels that every series must have: a value, or one of several."""


class UsageQueries(Protocol):
    """One resource of nodes, or of pods."""

    @property
    def metric(self) -> str:
        """The name of the series that must exist, for messages."""
        ...

    def promql(self, query: MetricQuery, matchers: Matchers) -> str | None:
        """The PromQL for a query, restricted to series with the labels `matchers`; None: not supported.

        The results of all queries about one series must have the same labels.
        """
        ...


class QueryProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics that contain the usage, with the labels of one way to scrape them. What is absent cannot be
    measured."""

    cpu: Mapping[Subject, UsageQueries]
    memory: Mapping[MemoryKind, Mapping[Subject, UsageQueries]]

    names_only: bool = False
    """True: series are identified by node, namespace and pod alone, because other labels differ between queries."""


def milliseconds(seconds: float) -> str:
    """A duration that every PromQL dialect can parse, however short: 1.333 s is `1333ms`."""
    return f"{max(1, round(seconds * 1000))}ms"


def selector(metric: str, matchers: Matchers, *conditions: str) -> str:
    """`metric{name="value"}` with quoted values; the conditions are inserted unchanged."""
    pairs = [*conditions, *(_matcher(name, value) for name, value in sorted(matchers.items()))]
    return f"{metric}{{{','.join(pairs)}}}" if pairs else metric


def one_of(name: str, values: Sequence[str]) -> str:
    """The condition that a label has one of these values."""
    # A dash has no meaning here, and most names have one. Prometheus finds plain words faster.
    escaped = (re.escape(value).replace(r"\-", "-") for value in values)
    return f'{name}=~"{_quoted("|".join(escaped))}"'


def among(pods: Sequence[PodName]) -> tuple[str, ...]:
    """The conditions that the namespace and the name of a pod are among those of these pods; none without pods."""
    if not pods:
        return ()
    namespaces, names = zip(*pods, strict=True)
    return one_of("namespace", sorted(set(namespaces))), one_of("pod", sorted(set(names)))


def _matcher(name: str, value: str | Sequence[str]) -> str:
    return f'{name}="{_quoted(value)}"' if isinstance(value, str) else one_of(name, value)


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
