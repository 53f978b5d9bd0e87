"""Alerts on a real reclaimer and a real agent: both run in this process for hours of simulated time."""

import errno
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
from agent.agents import AgentWorld, batch_pod, uid
from agent.fake_cgroups import FakeCgroups
from builders import NOW, a_placement
from monitored.promtool import needs_promtool
from monitored.scrapes import Scrapes
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from reclaimer.worlds import NAMES, NODE, World, a_batch_pod

from equipoise.agent.decisions.suppression import CpuSuppression
from equipoise.agent.settings import AgentSettings
from equipoise.contracts.bus.subjects import node_placement
from equipoise.reclaimer.decisions.strategy import ReclaimStrategy

pytestmark = needs_promtool

POD = f"kubepods/besteffort/pod{uid(1)}"


class AgentRegistry:
    """What an agent exports, as of the other services."""

    def __init__(self, agent: AgentWorld) -> None:
        self._agent = agent

    def collect(self) -> Iterable[Metric]:
        return text_string_to_metric_families(self._agent.metrics.render())


class Cgroups(FakeCgroups):
    """May become read-only."""

    read_only = False

    def _write(self, path: str, text: str) -> None:
        if self.read_only:
            raise OSError(errno.EROFS, path)
        super()._write(path, text)


class Colocated:
    """A reclaimer that writes to the status of one node, and the agent of this node."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        cgroups = folder / "cgroups"
        cgroups.mkdir()
        self.cgroups = Cgroups(cgroups, version=2)
        self.cgroups.make(POD)
        self._folder = folder
        self._burnt = 0.0
        self.burning = 0.0
        """Cores that batch pods use."""

        self.use_memory(1.0)
        self.reclaimer = World()
        settings = AgentSettings(**settings)
        self.agent = AgentWorld(cgroups, "kubepods", settings, proc=str(folder), system=str(folder))
        self.agent.agent._files = self.agent.agent._meter._files = self.agent.agent._writer._files = self.cgroups
        self.agent.know([batch_pod(1)])
        self.scrapes = Scrapes(NOW)
        self.scraped = {"reclaimer", "agent"}
        self.measured = True
        self.agent_runs = True

    def use_memory(self, percent: float) -> None:
        (self._folder / "meminfo").write_text(f"MemTotal: 1000000 kB\nMemAvailable: {round(1e6 - percent * 1e4)} kB\n")

    def _burn(self, seconds: float) -> None:
        self._burnt += self.burning * seconds
        self.cgroups.put("kubepods", "cpu.stat", f"usage_usec {round(self._burnt * 1e6)}")
        self.cgroups.put("kubepods/besteffort", "cpu.stat", f"usage_usec {round(self._burnt * 1e6)}")
        (self._folder / "stat").write_text(f"cpu {round(self._burnt * os.sysconf('SC_CLK_TCK'))} 0 0 0 0\n")

    async def run_for(self, minutes: int) -> None:
        """A round of the agent, an evaluation and a scrape in each minute."""
        pod = a_batch_pod()
        for _ in range(minutes):
            await self.reclaimer.placed(pod)
            if self.measured:
                await self.reclaimer.measured()
            await self.reclaimer.clock.advance(60)
            self._burn(60)
            if self.agent_runs:
                self.agent.round(60)
                self.agent.metrics.add("equipoise_agent_rounds_total", 60)  # its loop counts them
            registries: dict[str, Any] = {
                "reclaimer": self.reclaimer.metrics,
                "agent": AgentRegistry(self.agent),
            }
            self.scrapes.take({name: each for name, each in registries.items() if name in self.scraped})

    def firing(self, folder: Path) -> set[str]:
        """Without the alert that the five other services do not run."""
        return self.scrapes.firing(folder) - {"EquipoiseServiceDown"}


@pytest.fixture
async def colocated(tmp_path: Path) -> AsyncIterator[Colocated]:
    colocated = Colocated(tmp_path)
    async with colocated.reclaimer.bus:
        yield colocated
        await colocated.reclaimer.end()


async def test_nothing_fires_without_a_fault(colocated: Colocated, tmp_path: Path) -> None:
    await colocated.reclaimer.begin(mode="enforce")
    await colocated.run_for(120)

    assert colocated.reclaimer.status
    assert colocated.firing(tmp_path) == set()


@pytest.mark.parametrize("still_scraped", [True, False])
async def test_a_reclaimer_without_its_lease(still_scraped: bool, colocated: Colocated, tmp_path: Path) -> None:
    """It no longer leads, or it no longer runs."""
    await colocated.reclaimer.begin(mode="enforce")
    await colocated.run_for(20)
    colocated.reclaimer.kube.fail_next("replace", status=500, resource="leases", times=None)
    if not still_scraped:
        colocated.scraped.remove("reclaimer")
    await colocated.run_for(30)

    assert colocated.firing(tmp_path) == {"EquipoiseReclaimerNotEvaluating"}


async def test_writes_that_are_refused(colocated: Colocated, tmp_path: Path) -> None:
    await colocated.reclaimer.begin(mode="enforce")
    colocated.reclaimer.kube.fail_next("update_status", status=403, times=None)
    await colocated.run_for(40)

    assert colocated.firing(tmp_path) == {"EquipoiseReclaimerWritesFail", "EquipoiseReclaimerWritesWait"}


async def test_another_program_that_writes_the_same_amounts(colocated: Colocated, tmp_path: Path) -> None:
    """Three times within an hour: then the reclaimer does not write the node any more, and reports that."""
    world = colocated.reclaimer
    await world.begin(mode="enforce")
    await colocated.run_for(10)
    for amount in (7_001, 7_002, 7_003):
        await world.kube.set_node_amounts(NODE, dict.fromkeys(NAMES, amount), uid=f"uid-{NODE}")
        await colocated.run_for(3)
    written = world.writes
    await colocated.run_for(10)

    assert colocated.firing(tmp_path) == {"EquipoiseReclaimedAmountsContested"}
    assert world.writes == written


async def test_writes_that_have_to_wait(colocated: Colocated, tmp_path: Path) -> None:
    """One write per hour: the offer grows in steps meanwhile."""
    await colocated.reclaimer.begin(mode="enforce", writes_per_second=1 / 3_600)
    await colocated.run_for(60)

    assert colocated.firing(tmp_path) == {"EquipoiseReclaimerWritesWait"}


async def test_samples_that_end(colocated: Colocated, tmp_path: Path) -> None:
    await colocated.reclaimer.begin(mode="enforce")
    await colocated.run_for(10)
    colocated.measured = False
    await colocated.run_for(50)

    assert colocated.firing(tmp_path) == {"EquipoiseReclaimedAmountsDegraded"}


async def test_a_strategy_that_offers_nothing_is_no_fault(colocated: Colocated, tmp_path: Path) -> None:
    await colocated.reclaimer.begin(mode="enforce", strategy=ReclaimStrategy(enabled=False))
    await colocated.run_for(50)

    assert colocated.firing(tmp_path) == set()


async def test_a_node_without_an_agent(colocated: Colocated, tmp_path: Path) -> None:
    """A second node offers resources too."""
    await colocated.reclaimer.begin(mode="enforce")
    await colocated.reclaimer.bus.publish(node_placement("node-b"), a_placement("node-b"))
    await colocated.run_for(25)

    assert colocated.firing(tmp_path) == {"EquipoiseAgentMissing"}


async def test_an_agent_that_hangs(colocated: Colocated, tmp_path: Path) -> None:
    await colocated.reclaimer.begin(mode="enforce")
    await colocated.run_for(10)
    colocated.agent_runs = False
    await colocated.run_for(20)

    assert colocated.firing(tmp_path) == {"EquipoiseAgentRoundsStopped"}


async def test_cgroups_that_are_read_only(colocated: Colocated, tmp_path: Path) -> None:
    await colocated.reclaimer.begin(mode="enforce")
    colocated.cgroups.read_only = True
    await colocated.run_for(20)

    assert "Read-only file system" in str(colocated.agent.health.report().problems)
    families = {each.name: each for each in AgentRegistry(colocated.agent).collect()}
    assert {sample.value for sample in families["equipoise_agent_evictions"].samples} == {0.0}
    assert colocated.firing(tmp_path) == {"EquipoiseAgentCannotLimit"}


async def test_batch_work_above_the_threshold_for_hours(tmp_path: Path) -> None:
    """Of all the CPUs of the node, of which half may be used."""
    colocated = Colocated(tmp_path, suppression=CpuSuppression(cpu_threshold=50.0))
    async with colocated.reclaimer.bus:
        await colocated.reclaimer.begin(mode="enforce")
        colocated.burning = float(os.cpu_count() or 1)
        await colocated.run_for(240)
        await colocated.reclaimer.end()

    assert colocated.firing(tmp_path) == {"EquipoiseBatchWorkSuppressed"}


@pytest.mark.parametrize("evict", [True, False])
async def test_a_node_without_memory(evict: bool, tmp_path: Path) -> None:
    """A dry run is no eviction."""
    colocated = Colocated(tmp_path, evict=evict)
    colocated.cgroups.put(POD, "memory.stat", "anon 1000000000")
    async with colocated.reclaimer.bus:
        await colocated.reclaimer.begin(mode="enforce")
        await colocated.run_for(10)
        colocated.use_memory(99.0)
        await colocated.run_for(1)
        colocated.use_memory(1.0)
        await colocated.run_for(5)
        await colocated.reclaimer.end()

    assert colocated.agent.api.evicted == (["batch-1"] if evict else [])
    assert colocated.firing(tmp_path) == ({"EquipoiseBatchPodsEvicted"} if evict else set())
