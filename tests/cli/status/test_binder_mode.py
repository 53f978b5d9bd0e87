"""Whether `equipoise status` shows evictions as real, as dry runs, or as unknown."""

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime

import pytest
from binder.ledgers import a_ledger
from bus_worlds import free_port
from cli.beating import a_heartbeat, beat, beating
from cli.buses import Bus
from cli.http_clusters import HttpCluster
from cli.published_modes import publish_configuration, publish_leader
from msgspec.structs import replace

from equipoise.cli.bus.heartbeats import read_heartbeats
from equipoise.cli.status.binder_mode import binder_mode, read_binder_mode
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.kubernetes.objects.cluster import Lease, LeaseSpec
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.messages.health import DRY_RUN, EFFECTIVE_CONFIGURATION, REAL, Heartbeat
from equipoise.runtime.configuration import Nats
from equipoise.runtime.kubernetes.client import LEASES
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.memory.kube import MemoryKube

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")

OWN = "equipoise-system"
URL = "nats://bus"


LEADER = a_heartbeat("descheduler", "descheduler-1", leading=True)


def binder_and_leader(evictions: str) -> tuple[tuple[ServiceName, Heartbeat], ...]:
    return ("binder", a_heartbeat("binder", "binder-1", evictions=evictions)), ("descheduler", LEADER)


def mode(*evictions: str, leader: Heartbeat = LEADER, holders: Collection[str] | None = (LEADER.id,)) -> str:
    binders = [a_heartbeat("binder", f"binder-{number}", evictions=text) for number, text in enumerate(evictions)]
    return binder_mode([*binders, leader], holders, URL).mode


def test_real_evictions_win() -> None:
    """While the mode is rolled out, some binders evict."""
    assert mode(DRY_RUN, DRY_RUN) == "dry run"
    assert mode(DRY_RUN, REAL) == "real"


def test_a_mode_that_no_binder_states_is_unknown() -> None:
    """Without a heartbeat, and if a binder reports something else."""
    assert mode() == "unknown"
    assert mode(DRY_RUN, "paused: release") == "unknown"


def test_heartbeats_of_another_cluster_are_not_of_this_one() -> None:
    """A port-forward may lead elsewhere: the leader on the bus must hold a Lease of the cluster."""
    assert mode(DRY_RUN, holders={"descheduler-2"}) == "unknown"
    assert mode(REAL, holders={"descheduler-2"}) == "unknown"
    assert mode(REAL, holders=None) == "unknown"
    assert mode(REAL, leader=a_heartbeat("descheduler", LEADER.id, leading=False)) == "unknown"


def a_cluster(holder: str) -> MemoryKube:
    clock = SystemClock()
    kube = MemoryKube(clock)
    renewed = datetime.fromtimestamp(clock.now(), UTC)
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=60, renew_time=renewed)
    kube.put(LEASES, Lease(metadata=ObjectMeta(name="equipoise-descheduler", namespace=OWN), spec=spec))
    return kube


@pytest.mark.parametrize(("evictions", "listen", "expected"), [(DRY_RUN, 5.0, "dry run"), (REAL, 60.0, "real")])
async def test_the_user_tap_reads_the_mode_from_the_bus(bus: Bus, evictions: str, listen: float, expected: str) -> None:
    """Heartbeats are not retained: they are published while the command listens.

    Takes seconds: after a dry run, the command listens for a binder that evicts until the time is over.
    """
    async with beating(bus.settings, *binder_and_leader(evictions)):
        found = await read_binder_mode(bus.settings("tap"), a_cluster(LEADER.id), OWN, SystemClock(), listen=listen)

    assert found.mode == expected, found
    assert bus.url in found.why


async def test_status_shows_a_dry_run_as_such(bus: Bus, cluster: HttpCluster) -> None:
    """The ledger allows evictions, but the binders only dry-run."""
    now = SystemClock().now()
    cluster.put_ledger(a_ledger(created_at=now - 9_000, started_at=now - 9_000))
    await publish_leader(bus, cluster)
    await publish_configuration(bus, "binder-1", {}, evict=False)
    code, output = await bus.run("status", KUBECONFIG=str(cluster.file))

    assert code == 0, output
    assert f"\nevictions: dry run\nbinders: 1 binder at {bus.url}: dry run\n" in output
    assert "evictions: allowed" not in output


@pytest.mark.parametrize(("holder", "expected"), [(LEADER.id, "real"), ("other", "unknown")])
async def test_another_service_does_not_hide_a_binder_that_evicts(holder: str, expected: str) -> None:
    """It publishes a configuration of its own under the id of the binder."""
    binder = replace(EFFECTIVE_CONFIGURATION, id="binder-1", evictions=REAL, at=SystemClock().now())
    leader = replace(binder, service="descheduler", id=LEADER.id, evictions="", leading=True)
    scorer = replace(binder, service="scorer", evictions=DRY_RUN)
    server = Nats(url=f"nats://127.0.0.1:{free_port()}")
    found = await read_binder_mode(server, a_cluster(holder), OWN, SystemClock(), (binder, leader, scorer))
    assert found.mode == expected, found
    assert found.reported == ((REAL,) if holder == "other" else ())


def test_only_a_service_that_leads_shows_of_which_cluster_a_bus_is() -> None:
    assert mode(REAL, leader=a_heartbeat("scorer", LEADER.id, leading=True)) == "unknown"


async def test_a_heartbeat_on_the_subject_of_another_service_is_left_out(bus: Bus) -> None:
    """The scorer may not state whether binders evict."""
    own = a_heartbeat("scorer", "scorer-1")
    forged = a_heartbeat("binder", "scorer-1", evictions=DRY_RUN)

    publishing = asyncio.create_task(beat(bus.settings, "scorer", forged, own))
    try:
        found = await read_heartbeats(bus.settings("tap"), SystemClock(), lambda found: own in found, listen=60.0)
    finally:
        publishing.cancel()
        await asyncio.wait([publishing])
    assert found == [own]


async def test_an_unreachable_bus_is_unknown_at_once() -> None:
    """With its address."""
    server = Nats(url=f"nats://127.0.0.1:{free_port()}")
    found = await read_binder_mode(server, a_cluster(LEADER.id), OWN, SystemClock())

    assert (found.mode, found.why) == ("unknown", f"cannot connect to NATS at {server.url}: connection refused")


async def test_rejected_credentials_are_unknown(bus: Bus) -> None:
    """The server has users, and none was given."""
    found = await read_binder_mode(Nats(url=bus.url), a_cluster(LEADER.id), OWN, SystemClock(), listen=0.5)

    assert found.mode == "unknown"
    assert "Authorization Violation" in found.why
