"""Alerts on the real services: they run in one process for hours of simulated time.

Prometheus' own engine evaluates the rules on what they exported meanwhile.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from builders import NOW
from descheduler.cluster import a_node_object
from flow.loop import HOT, IDLE, Loop
from monitored.promtool import needs_promtool
from monitored.scrapes import OWN, Scrapes
from prometheus_client import CollectorRegistry

from equipoise.binder.shell.ledger_store import NAME as LEDGER
from equipoise.contracts.bus import subjects
from equipoise.contracts.kubernetes.objects.cluster import Lease, LeaseSpec
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.runtime.bus.codec import SUBJECT
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, LEASES, NODES
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE
from equipoise.runtime.process.main import refused

pytestmark = needs_promtool


class Watched(Loop):
    """The five services, scraped once a minute of simulated time."""

    def __init__(self) -> None:
        super().__init__()
        self.registries["nats"] = CollectorRegistry()  # type: ignore[index]  # of the one connection of all services
        self.bus.errors = BusErrors(self.clock, self.registries["nats"])  # type: ignore[index]
        self.scrapes = Scrapes(NOW)
        self.unscraped: set[str] = set()
        self.unmeasured: set[str] = set()
        self._replaced = 0

    async def run_for(self, minutes: int) -> None:
        for _ in range(minutes):
            await self.pass_time(60)
            self._replace()
            self.scrapes.take({name: each for name, each in self.registries.items() if name not in self.unscraped})

    def _measure(self) -> None:
        super()._measure()
        self.source.nodes = {name: usage for name, usage in self.source.nodes.items() if name not in self.unmeasured}

    def _replace(self) -> None:
        """A controller creates a pod for each evicted one, and kube-scheduler places it on an idle node."""
        for name in self.evicted()[self._replaced :]:
            self._replaced += 1
            self.place(name.split("-")[0], f"{name.split('-')[0]}-1-r{self._replaced}", IDLE[self._replaced % 2])


Fault = Callable[[Watched], None]


def source_down(loop: Watched) -> None:
    loop.source.down = "connection refused"


def skewed(loop: Watched) -> None:
    loop.source.skew = -4.0


def bus_lost(loop: Watched) -> None:
    loop.bus.disconnect()


def ledger_deleted(loop: Watched) -> None:
    loop.kube.remove(CONFIG_MAPS, LEDGER, OWN)


def ledger_forbidden(loop: Watched) -> None:
    loop.kube.fail_next("get", status=403, resource="configmaps", times=None)


def annotations_forbidden(loop: Watched) -> None:
    loop.kube.fail_next("annotate", status=403, times=None)


def lease_lost(loop: Watched) -> None:
    loop.kube.fail_next("replace", status=500, resource="leases", name=DESCHEDULER_LEASE, times=None)


def scorer_gone(loop: Watched) -> None:
    loop.unscraped.add("scorer")


def configuration_refused(loop: Watched) -> None:
    refused(loop.health["binder"], ConfigurationError("binder.limits.rate: expected an object"))


def node_unmeasured(loop: Watched) -> None:
    """One of four, and Ready for more than five minutes: three quarters of the nodes have fresh data."""
    loop.kube.put(NODES, a_node_object("node-d", loop.clock.now()))
    loop.unmeasured.add("node-d")


def watch_broken(loop: Watched) -> None:
    """Of the collector alone: of the others, only it watches ReplicaSets."""
    for verb in ("list", "watch"):
        loop.kube.fail_next(verb, status=403, resource="replicasets", times=None)
    loop.kube.end_watches()


def message_redirected(loop: Watched) -> None:
    loop.bus.inject(subjects.node_utilization(HOT), b"{}", headers={SUBJECT: "equipoise.utilization.node.other"})


def evictions_forbidden(loop: Watched) -> None:
    loop.kube.fail_next("evict", status=403, times=None)


def other_installation(loop: Watched) -> None:
    """Older than this one, in another namespace."""
    created, renewed = (datetime.fromtimestamp(at, UTC) for at in (NOW - 86_400, NOW + 86_400))
    metadata = ObjectMeta(name=DESCHEDULER_LEASE, namespace="other", creation_timestamp=created)
    spec = LeaseSpec(holder_identity="other", renew_time=renewed)
    lease = loop.kube.put(LEASES, Lease(metadata=metadata, spec=spec))
    assert lease.metadata.creation_timestamp == created


FAULTS: Mapping[str, tuple[Fault, int, set[str]]] = {
    "the metric source does not respond": (source_down, 25, {"EquipoiseScoresWithoutCoverage"}),
    "the clock of the metric source is late": (skewed, 25, {"EquipoiseClockSkew"}),
    "the connection to NATS is lost": (bus_lost, 15, {"EquipoiseNatsUnreachable"}),
    "the ledger is deleted": (ledger_deleted, 10, {"EquipoiseLedgerClosed"}),
    "the ledger may not be read": (ledger_forbidden, 20, {"EquipoiseLedgerUnreadable"}),
    "annotations may not be written": (annotations_forbidden, 70, {"EquipoiseAnnotationsRefused"}),
    "the descheduler loses its Lease": (lease_lost, 40, {"EquipoiseNoEvaluations"}),
    "the scorer is gone": (scorer_gone, 15, {"EquipoiseServiceDown"}),
    "the changed configuration is invalid": (configuration_refused, 15, {"EquipoiseConfigurationRejected"}),
    "a message was published for another subject": (message_redirected, 5, {"EquipoiseMessagesRedirected"}),
    "a quarter of the nodes has no data": (node_unmeasured, 50, {"EquipoiseEvictionsWithoutCoverage"}),
    "ReplicaSets may not be watched": (watch_broken, 25, {"EquipoiseWatchBroken"}),
    "another installation is older": (other_installation, 15, {"EquipoiseOtherInstallation"}),
    "evictions are forbidden": (evictions_forbidden, 8 * 60, {"EquipoiseIntentsRefused"}),
}


FAST = ("the scorer is gone",)
"""The others are run weekly: they take some seconds each."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else [pytest.mark.weekly]) for name in FAULTS]
)
async def test_a_fault_fires_its_alert(name: str, tmp_path: Path) -> None:
    """After 20 minutes without a fault, in which none fires."""
    fault, minutes, expected = FAULTS[name]
    loop = Watched()
    async with loop.running():
        await loop.run_for(20)
        fault(loop)
        await loop.run_for(minutes)

    assert loop.scrapes.firing(tmp_path, until=19) == set()
    assert loop.scrapes.firing(tmp_path) == expected


@pytest.mark.weekly
async def test_services_without_the_manifests_of_their_restrictions_are_reported(tmp_path: Path) -> None:
    """With ServiceAccounts, the annotator and binder need their policies, the descheduler the Role of its approvals."""
    loop = Watched()
    loop.kube.as_service_account = True
    async with loop.running():
        await loop.run_for(35)

    missing = {"EquipoiseFenceMissing", "EquipoiseApprovalsRefused"}
    expected = {*missing, "EquipoiseReplicaNotReady", "EquipoiseServiceDown"}
    assert loop.scrapes.firing(tmp_path) == expected


@pytest.mark.parametrize("minutes", [60, pytest.param(240, marks=pytest.mark.weekly)])
async def test_no_alert_fires_without_a_fault(minutes: int, tmp_path: Path) -> None:
    """Pods are evicted and replaced meanwhile, and limits reject intents."""
    loop = Watched()
    async with loop.running():
        await loop.run_for(minutes)

    assert loop.evicted()
    assert loop.scrapes.firing(tmp_path) == set()
