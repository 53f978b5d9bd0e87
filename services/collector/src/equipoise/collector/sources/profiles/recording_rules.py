"""Nodes from recording rules of our own, so that a day's mean of a big fleet costs nothing when it is asked for.

node-exporter shows every core and mode as a series of its own: a day of 5,000 nodes of 32 cores are billions of
samples. The rules keep one counter per node, take every window's mean, and beside it count its raw samples and keep
the time of the newest one, in the same evaluation: the age of a mean is that of the raw sample it was made from,
never that of the rule, and a rule whose source died says so. Windows that no rule knows are taken from the kept
counter. Pods have one series each already and are asked for as they were scraped.

`python -m equipoise.collector.sources.profiles` writes the rules for Prometheus, with `--object` as a PrometheusRule
for its operator.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from equipoise.collector.decisions.query import Ask, What
from equipoise.collector.sources.profiles.kube_prometheus import (
    NODE_CPU,
    NODE_INFO,
    NODE_WORKING_SET,
    POD_CPU,
    POD_MEMORY,
)
from equipoise.collector.sources.profiles.profile import Profile, Usage
from equipoise.collector.sources.profiles.raw import statistic
from equipoise.collector.sources.queries import milliseconds, selector
from equipoise.contracts.configuration.duration import Duration

EVERY = Duration(30)
"""How often the kept counter and the short windows are evaluated. Fresh means 120 s: scrape, rule and rule fit in."""


class RecordedWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A window that has rules."""

    name: str
    every: str
    """Below five minutes, after which Prometheus no longer shows a sample."""

    of_kept: bool
    """Is its mean made of the kept series? Else of what was scraped."""

    @property
    def length(self) -> float:
        """Seconds."""
        return float(Duration.parse(self.name))


WINDOWS: Sequence[RecordedWindow] = (
    RecordedWindow(name="5m", every=str(EVERY), of_kept=False),
    RecordedWindow(name="15m", every=str(EVERY), of_kept=False),
    RecordedWindow(name="1h", every="1m", of_kept=True),
    RecordedWindow(name="1d", every="4m", of_kept=True),
)


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """One resource of nodes."""

    name: str
    """First part of its rules' names."""

    kept: str
    """Rule that keeps it as one series per node."""

    keeping: str
    """The expression of that rule."""

    counter: bool
    """Is what is kept a counter, or a gauge?"""

    raw: Usage

    @property
    def newest(self) -> str:
        """Rule that keeps the time of the raw sample behind the kept one."""
        return f"{self.name}:newest"

    def query(self, ask: Ask, matchers: Mapping[str, str]) -> str | None:
        """See Usage."""
        window = next((window for window in WINDOWS if window.length == ask.length), None)
        if window is not None and ask.what in ("mean", "count", "newest"):
            return selector(f"{self.name}:{ask.what}{window.name}", matchers)
        length, step = milliseconds(ask.length), milliseconds(ask.step)
        kept = selector(self.kept, matchers)
        match ask.what:
            case "mean":
                return self.mean(kept, length)
            case "newest":
                return selector(self.newest, matchers)
            case "last":
                return f"max_over_time({selector(self.newest, matchers)}[{length}])"
            case "count":
                return self.counted(self.raw.query(ask, matchers) or "", kept, length, ask.length)
            case "spacing":
                return self.raw.query(ask, matchers)
        return statistic(ask, f"rate({kept}[{step}])[{length}:{step}]" if self.counter else f"{kept}[{length}]")

    def mean(self, series: str, length: str) -> str:
        """The mean of the kept series over a time."""
        return f"rate({series}[{length}])" if self.counter else f"avg_over_time({series}[{length}])"

    def counted(self, count: str, kept: str, window: str, length: float) -> str:
        """How many raw samples stand behind a mean of the kept series: rules may be younger than what they record."""
        return f"{count} * clamp_max(count_over_time({kept}[{window}]) * {float(EVERY):g} / {length:g}, 1)"

    def rules(self, window: RecordedWindow) -> list[dict[str, str]]:
        """The rules of one window."""
        mean, count, newest = (self._raw(what, window) for what in ("mean", "count", "newest"))
        if window.of_kept:
            mean = self.mean(self.kept, window.name)
            count = self.counted(count, self.kept, window.name, window.length)
            # What is made of kept samples is as old as they are.
            newest = self.newest
        expressions = {"mean": mean, "count": count, "newest": newest}
        return [{"record": f"{self.name}:{what}{window.name}", "expr": text} for what, text in expressions.items()]

    def keep(self) -> list[dict[str, str]]:
        """The rules that keep it."""
        return [
            {"record": self.kept, "expr": self.keeping},
            {"record": self.newest, "expr": self._raw("newest", WINDOWS[0])},
        ]

    def _raw(self, what: What, window: RecordedWindow) -> str:
        ask = Ask(subject="node", resource="cpu", what=what, length=window.length, at=0.0)
        return (self.raw.query(ask, {}) or "").replace(milliseconds(window.length), window.name)


CPU = Recorded(
    name="equipoise:node_cpu",
    kept="equipoise:node_cpu_seconds:sum",
    # All parts of a node's counter start anew together, at a reboot: their sum may be rated as one counter.
    keeping=f"sum without ({', '.join(NODE_CPU.parts)}) ({selector(NODE_CPU.metric, {}, *NODE_CPU.conditions)})",
    counter=True,
    raw=NODE_CPU,
)
MEMORY = Recorded(
    name="equipoise:node_memory",
    kept="equipoise:node_memory_working_set_bytes",
    keeping=" - ".join((NODE_WORKING_SET.metric, *NODE_WORKING_SET.less)),
    counter=False,
    raw=NODE_WORKING_SET,
)

RECORDING_RULES = Profile(
    cpu={"node": CPU, "pod": POD_CPU},
    memory={"workingSet": {"node": MEMORY, "pod": POD_MEMORY["workingSet"]}},
    node_info=NODE_INFO,
)


def rule_file() -> dict[str, Any]:
    """The rules, as Prometheus reads them from a file."""
    kept = {"name": "equipoise-kept", "interval": str(EVERY), "rules": [*CPU.keep(), *MEMORY.keep()]}
    windows = [
        {
            "name": f"equipoise-{window.name}",
            "interval": window.every,
            "rules": [*CPU.rules(window), *MEMORY.rules(window)],
        }
        for window in WINDOWS
    ]
    return {"groups": [kept, *windows]}


def rule_object() -> dict[str, Any]:
    """The rules as an object of the Prometheus operator. The label is the one kube-prometheus-stack selects by."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "equipoise", "labels": {"release": "kube-prometheus-stack"}},
        "spec": rule_file(),
    }
