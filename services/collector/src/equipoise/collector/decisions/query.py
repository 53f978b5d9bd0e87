"""What a source of metrics is asked, and what it answers."""

from collections.abc import Mapping
from typing import Literal

import msgspec

Resource = Literal["cpu", "memory"]
Statistic = Literal["p95", "max", "deviation"]
Subject = Literal["node", "pod"]
What = Literal["mean", "count", "newest", "last", "spacing"] | Statistic


class SourceError(Exception):
    """A question has no answer that may be used; says why, as people read it, and holds no secret."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One question: about all nodes or all pods, one resource, one window, one moment.

    what: `mean`, `p95`, `max`, `deviation` of the usage over the window (cores, bytes); `count` of its raw samples;
    `newest`: time of the newest raw sample of series that are alive; `last`: the same of series that ended within
    the window; `spacing`: median seconds between raw samples.
    """

    subject: Subject
    resource: Resource
    what: What
    length: float
    """Seconds: the window is (at − length, at]."""

    at: float
    """Unix seconds on the source's clock."""

    step: float = 0.0
    """Seconds between inner evaluations, for `last` and for statistics of cpu."""

    least: float = 0.0
    """Of a `mean`: series with fewer raw samples in the window are left out. Half of what a source would tell of many
    pods are counts, and nearly all of them say that none is missing."""


class Sample(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The answer for one series. Its value is as it came: NaN, infinite or negative are judged later."""

    node: str
    """Name of its node; empty when no label tells."""

    namespace: str = ""
    pod: str = ""
    series: str
    """All labels, as `series_of` writes them: which series this is, across questions."""

    value: float

    of_capacity: bool = False
    """Is the value a share (0..1) of what its machine has, instead of cores or bytes?"""


def series_of(labels: Mapping[str, str]) -> str:
    """A series by its labels, as people read it: `node="a", pod="web-1"`."""
    return ", ".join(f"{name}={msgspec.json.encode(text).decode()}" for name, text in sorted(labels.items()))
