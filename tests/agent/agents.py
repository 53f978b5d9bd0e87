"""An agent in this process, with pods that a test names."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from equipoise.agent.decisions.evictions import Victim
from equipoise.agent.service import Agent
from equipoise.agent.settings import AgentSettings
from equipoise.agent.shell.evictor import Evictor
from equipoise.agent.shell.health import AgentHealth
from equipoise.agent.shell.log import Log
from equipoise.agent.shell.metrics import Metrics
from equipoise.agent.state.watched_pods import BandPod, WatchedPods

GIB = 2.0**30


def uid(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def batch_pod(number: int, **changes: Any) -> BandPod:
    """One core and one GiB."""
    pod = BandPod(
        uid=uid(number),
        namespace="jobs",
        name=f"batch-{number}",
        band="batch",
        priority=5_000,
        cpu_request=1.0,
        cpu_limit=1.0,
        memory_limit=GIB,
        evictable=True,
    )
    return msgspec.structs.replace(pod, **changes)


class RecordedEvictions:
    """In place of the API server: tests with a real one are in test_agent_cluster.py."""

    def __init__(self) -> None:
        self.evicted: list[str] = []

    def evict(self, _namespace: str, name: str, _uid: str) -> None:
        self.evicted.append(name)


class AgentWorld:
    """`root` is like /sys/fs/cgroup; `parent` the group of all pods."""

    def __init__(
        self,
        root: Path,
        parent: str,
        settings: AgentSettings | None = None,
        *,
        proc: str = "/proc",
        system: str = "/sys",
    ) -> None:
        self.settings = msgspec.structs.replace(
            settings or AgentSettings(), cgroup_root=str(root), cgroup_parent=parent
        )
        self.now = 1_000.0
        self.log = io.StringIO()
        self.metrics = Metrics()
        log = Log(lambda: 0.0, stream=self.log)
        self.health = AgentHealth(log, self.metrics, stalled_after=30, monotonic=lambda: self.now)
        self.pods = WatchedPods()
        self.api = RecordedEvictions()
        self.evictor = Evictor(
            self.api,  # type: ignore[arg-type]  # of the API server only evictions are used
            log,
            self.metrics,
            evict=self.settings.evict,
            monotonic=lambda: self.now,
        )
        self.agent = Agent(
            self.settings, self.pods, self.evictor, self.health, self.metrics, proc=proc, system=system,
            monotonic=lambda: self.now,
        )  # fmt: skip

    def know(self, pods: Sequence[BandPod]) -> None:
        self.pods.replace(list(pods))

    def round(self, seconds: float = 1.0) -> None:
        self.now += seconds
        self.agent.round(self.now)
        self.evictor.wait(5)


def names(victims: Sequence[Victim]) -> list[str]:
    return [victim.pod.name for victim in victims]
