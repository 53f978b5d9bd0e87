"""The real collector on a source whose metrics never change: placements are true, usage is what a file says.

The file (named by FROZEN_USAGE) maps each node's name to its cores and bytes.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from equipoise.collector.decisions.query import Ask, Sample, series_of
from equipoise.collector.decisions.sample_validation import Known
from equipoise.collector.service import Collector
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.shell import measurement as measuring
from equipoise.collector.state.placement import amounts
from equipoise.contracts.kubernetes.objects import Node
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.runtime.process.main import run

INTERVAL = 1.0
"""Seconds between samples, as it says itself."""


class FrozenSource:
    """Knows nodes, and no pod."""

    def __init__(self, usage: Mapping[str, Mapping[str, float]], clock: Clock) -> None:
        self._usage = usage
        self._clock = clock

    async def time(self) -> float:
        return self._clock.now()

    async def run(self) -> None:
        pass

    def cannot(self, question: Ask) -> str:
        return ""

    async def ask(self, question: Ask) -> list[Sample]:
        if question.subject == "pod" or question.what == "last":
            return []
        fixed = {"count": question.length / INTERVAL, "newest": question.at, "spacing": INTERVAL}
        return [
            Sample(
                node=node,
                series=series_of({"node": node}),
                value=fixed.get(question.what, used[question.resource]),
            )
            for node, used in self._usage.items()
        ]

    def close(self) -> None:
        """Nothing is open."""


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


def _of_old(node: Node, *, busy: bool = False) -> Known:
    """As if the node had been measured for days: its windows are covered from the first second."""
    return Known(since=0.0, ceiling=amounts(node.status.capacity), busy=busy)


if __name__ == "__main__":
    measuring.known_node = _of_old
    run("collector", CollectorSettings, start, kube=True)
