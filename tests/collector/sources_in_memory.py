"""A metric source that a test fills."""

from collections.abc import Callable
from dataclasses import dataclass, field

from builders import GIB

from equipoise.collector.decisions.query import Ask, Sample, SourceError, series_of
from equipoise.runtime.process.clock import Clock

INTERVAL = 15.0


@dataclass
class Usage:
    """What a node or a pod uses, and how well it is sampled."""

    cpu: float = 2.0
    memory: float = 8 * GIB
    age: float = 5.0
    coverage: float = 1.0
    interval: float = INTERVAL


@dataclass
class FakeSource:
    """Answers every question from `nodes` and `pods` (by namespace, name, node)."""

    clock: Clock
    nodes: dict[str, Usage] = field(default_factory=dict)
    pods: dict[tuple[str, str, str], Usage] = field(default_factory=dict)
    skew: float = 0.0
    down: str = ""
    fails: Callable[[Ask], bool] = lambda ask: False
    never: Callable[[Ask], str] = lambda ask: ""
    asked: list[Ask] = field(default_factory=list)
    takes: float = 0.0
    closed: bool = False
    runs: bool = False

    async def run(self) -> None:
        self.runs = True

    async def time(self) -> float:
        await self._answer()
        return self.clock.now() + self.skew

    def cannot(self, question: Ask) -> str:
        return self.never(question)

    async def ask(self, question: Ask) -> list[Sample]:
        self.asked.append(question)
        await self._answer()
        if self.fails(question):
            raise SourceError("too many samples")
        if question.subject == "node":
            return [a_sample(question, usage, node) for node, usage in self.nodes.items() if told(question, usage)]
        return [
            a_sample(question, usage, node, namespace, pod)
            for (namespace, pod, node), usage in self.pods.items()
            if told(question, usage)
        ]

    async def _answer(self) -> None:
        if self.takes:
            await self.clock.sleep(self.takes)
        if self.down:
            raise SourceError(self.down)

    def close(self) -> None:
        self.closed = True


def told(question: Ask, usage: Usage) -> bool:
    """Prometheus looks back five minutes for a live series."""
    return (question.what != "newest" or usage.age < 300) and counted(question, usage) >= question.least


def counted(question: Ask, usage: Usage) -> float:
    """Raw samples in the window."""
    return usage.coverage * question.length / usage.interval


def a_sample(question: Ask, usage: Usage, node: str, namespace: str = "", pod: str = "") -> Sample:
    values = {
        "mean": usage.cpu if question.resource == "cpu" else usage.memory,
        "count": counted(question, usage),
        "newest": question.at - usage.age,
        "last": question.at - usage.age,
        "spacing": usage.interval,
    }
    labels = {"node": node, "namespace": namespace, "pod": pod}
    return Sample(node=node, namespace=namespace, pod=pod, series=series_of(labels), value=values[question.what])
