"""The configuration of `equipoise up`, and what it prints: what it writes to the cluster, readiness, and who leads."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

from builders import NOW

from equipoise.cli.cluster_access.kubeconfig import Context
from equipoise.cli.up.run import (
    WITHOUT_ANNOTATIONS,
    complete_document,
    create_passwords,
    nats_access,
    readiness_changes,
    standby_line,
    summary,
)
from equipoise.contracts.bus.subjects import SERVICES
from equipoise.contracts.kubernetes.objects.cluster import Lease, LeaseSpec
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.runtime.bus.permissions import USERS
from equipoise.runtime.kubernetes.client import LEASES
from equipoise.runtime.process.health import Readiness
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube
from equipoise.testbed.processes.loopback import PortBlock

OWN = "equipoise-system"

SHIPPED = Path(__file__).parents[3] / "k8s" / "base" / "equipoise.yaml"


def test_the_shipped_configuration_serves_this_machine_without_certificates() -> None:
    """The files that it names exist only in a cluster. An address that is configured keeps its TLS settings."""
    context, ports = Context(files="", name="", cluster="", server=""), PortBlock()
    try:
        documents = [
            complete_document(SHIPPED.read_text(), environment, "http://x", context, evict=False, ports=ports)
            for environment in ({}, {"EQUIPOISE_SCORER__LISTEN": "10.0.0.1:8888"})
        ]
    finally:
        ports.release()
    local, reachable = [document["scorer"] for document in documents]
    assert local["listen"].startswith("127.0.0.1:")
    assert local["extender"]["tls"] is None
    assert reachable["listen"] == "10.0.0.1:8888"
    assert reachable["extender"]["tls"]["clientCaFile"]


def test_annotations_are_off_unless_requested() -> None:
    """The annotator is not among the services, and the output states it."""
    context = Context(files="kubeconfig", name="home", cluster="castle", server="https://castle:6443")
    document = {
        "nats": {"url": "nats://127.0.0.1:1"},
        "kubernetes": {"namespace": OWN},
        "binder": {"evict": False},
        "scorer": {"listen": "127.0.0.1:2", "extender": {"tls": None}},
    }
    off, on = (
        dict(line.split(maxsplit=1) for line in summary(context, document, Path("/x"), each, "profile kubelet"))
        for each in (WITHOUT_ANNOTATIONS, SERVICES)
    )

    assert "annotator" not in WITHOUT_ANNOTATIONS
    assert set(SERVICES) == {*WITHOUT_ANNOTATIONS, "annotator"}
    assert off["annotations"] == "none are written (use --annotate to annotate nodes and workloads)"
    assert on["annotations"] == "equipoise.dev/… on nodes and workloads"
    assert off["context"] == "home  (cluster castle https://castle:6443)"
    assert off["metrics"] == "profile kubelet"
    assert off["writes"] == f"ledger and Leases in namespace {OWN}"


def test_every_user_of_nats_has_a_password_of_its_own(tmp_path: Path) -> None:
    """In a file that only the owner reaches; the summary has the options of the user tap."""
    passwords = create_passwords(tmp_path)

    assert set(passwords) == set(USERS)
    assert len(set(passwords.values())) == len(USERS)
    assert stat.S_IMODE((tmp_path / "passwords").stat().st_mode) == 0o700
    for user in USERS:
        access = nats_access(tmp_path, user)
        assert access["EQUIPOISE_NATS__USER"] == user
        assert Path(access["EQUIPOISE_NATS__PASSWORD_FILE"]).read_text() == passwords[user]


async def test_a_standby_names_who_holds_its_lease() -> None:
    """Only Leases of this service that have not expired."""
    clock = ManualClock(NOW)
    kube = MemoryKube(clock)

    def put(name: str, holder: str, age: float) -> None:
        renewed = datetime.fromtimestamp(NOW, UTC) - timedelta(seconds=age)
        spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=15, renew_time=renewed)
        kube.put(LEASES, Lease(metadata=ObjectMeta(name=name, namespace=OWN), spec=spec))

    assert await standby_line(kube, OWN, "descheduler", clock) == ("", True)
    put("equipoise-collector", "other-1", 3)
    put("equipoise-descheduler", "ended", 60)
    assert await standby_line(kube, OWN, "descheduler", clock) == ("", True)
    put("equipoise-descheduler", "other-2", 3)
    assert await standby_line(kube, OWN, "descheduler", clock) == (
        "descheduler is a standby, another Equipoise works on this cluster: "
        "Lease equipoise-system/equipoise-descheduler is held by other-2",
        True,
    )
    kube.refuse("list")
    line, known = await standby_line(kube, OWN, "descheduler", clock)
    assert "who holds its Lease is unknown: 403" in line
    assert not known


def a_report(*problems: str, ready: bool = True) -> Readiness:
    waiting = [] if ready else ["nats"]
    return Readiness(
        ready=ready,
        waiting_for=waiting,
        connections={},
        problems=list(problems),
        leading=None,
        configuration="",
    )


def test_readiness_is_printed_when_it_changes() -> None:
    """Once."""
    assert ["scorer is ready"] == list(readiness_changes("scorer", None, a_report()))
    assert [] == list(readiness_changes("scorer", a_report(), a_report()))
    assert [] == list(readiness_changes("scorer", None, a_report(ready=False)))
    lost = "scorer is no longer ready:"
    assert [f"{lost} waiting for nats"] == list(readiness_changes("scorer", a_report(), a_report(ready=False)))
    assert [f"{lost} no response from /readyz"] == list(readiness_changes("scorer", a_report(), None))


def test_a_problem_is_printed_when_it_begins_and_when_it_is_resolved() -> None:
    """Once each."""
    assert ["scorer: coverage"] == list(readiness_changes("scorer", a_report(), a_report("coverage")))
    assert [] == list(readiness_changes("scorer", a_report("coverage"), a_report("coverage")))
    assert ["scorer: resolved: coverage"] == list(readiness_changes("scorer", a_report("coverage"), a_report()))
