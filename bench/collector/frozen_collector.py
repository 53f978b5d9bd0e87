"""The real collector with a source whose metrics never change: real placements, and the usage of nodes from a file.

The environment variable FROZEN_USAGE contains the path of the file. It maps each node name to cores and bytes.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from equipoise.collector.decisions.query import MetricQuery, Origin, Sample, series_name
from equipoise.collector.decisions.validation.window import MeasurementTarget
from equipoise.collector.service import Collector
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.shell import measurement
from equipoise.collector.state.placement import amounts
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.runtime.process.main import run

INTERVAL = 1.0
"""Seconds between samples, as the source reports it."""


class FrozenSource:
    """Has samples of nodes and none of pods."""

    def __init__(self, usage: Mapping[str, Mapping[str, float]], clock: Clock) -> None:
        self._usage = usage
        self._clock = clock

    async def time(self) -> float:
        return self._clock.now()

    async def run(self) -> None:
        pass

    def unsupported(self, query: MetricQuery) -> str:
        return ""

    async def query(self, query: MetricQuery) -> list[Sample]:
        if query.subject == "pod" or query.aggregate == "last":
            return []
        fixed = {"count": query.length / INTERVAL, "newest": query.at, "spacing": INTERVAL}
        return [
            Sample(
                origin=Origin(node=node),
                series=series_name({"node": node}),
                value=fixed.get(query.aggregate, usage[query.resource]),
            )
            for node, usage in self._usage.items()
        ]

    def close(self) -> None:
        """There is nothing to close."""


async def start(runtime: Runtime[CollectorSettings]) -> None:
    shared = runtime.configuration.shared
    collector = Collector(
        settings=runtime.own,
        load=shared.load,
        namespace=shared.kubernetes.namespace,
        identity=runtime.identity,
        source=FrozenSource(json.loads(Path(os.environ["FROZEN_USAGE"]).read_text()), runtime.clock),  # noqa: ASYNC240
        kube=runtime.kube,
        bus=runtime.bus,
        clock=runtime.clock,
        health=runtime.health,
        metrics=runtime.metrics,
    )
    await collector.attach()
    await collector.run()


def _long_measured(node: Node, at: float, *, has_pods: bool = False) -> MeasurementTarget:
    """The target as if its node had been measured for days, so that samples cover every window from the start."""
    return MeasurementTarget(since=0.0, capacity=amounts(node.status.capacity), has_pods=has_pods)


if __name__ == "__main__":
    measurement.node_target = _long_measured
    run("collector", CollectorSettings, start, kube=True)
