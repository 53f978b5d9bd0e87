"""Koordinator's limits of migrations: unavailable and migrating replicas of a workload, eviction cost."""

import msgspec
from binder.ledgers import an_entry, an_eviction
from builders import NOW, a_workload
from kube_objects import a_deployment, a_pod
from peers.cases import Case, peer_cases

from equipoise.binder.decisions.limits import Limits, MigratingPerNode, MigratingPerWorkload, UnavailablePerWorkload
from equipoise.binder.decisions.limits.rule import replicas_amount
from equipoise.binder.state.ledger import LedgerView
from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import Namespaces
from equipoise.contracts.eviction.candidate import Candidate, Rules
from equipoise.contracts.eviction.opt_out import EVICTION_COST
from equipoise.contracts.eviction.protection import protection
from equipoise.contracts.kubernetes.objects.cluster import Namespace

RULES = Rules(protection=Protection(), namespaces=Namespaces(), own_namespace="equipoise-system")


def a_view(*names: str, others: int = 0) -> LedgerView:
    """Migrations under way: those named of the workload, and this many of another."""
    mine = [an_entry(name) for name in names]
    theirs = [an_entry(f"other-{number}", workload=a_workload("db")) for number in range(others)]
    return LedgerView(now=NOW, entries=(*mine, *theirs), migration_timeout=600.0)


@peer_cases("migration.max_unavailable")
def test_the_most_unavailable_replicas(case: Case) -> None:
    """A number or a share of the replicas."""
    try:
        limit = msgspec.convert({"max": case.inputs["configured"]}, UnavailablePerWorkload)
    except msgspec.ValidationError:
        case.check(max_unavailable="refused")
    else:
        case.check(max_unavailable=replicas_amount(limit.max, case.inputs["replicas"]))


@peer_cases("migration.per_node")
def test_pods_migrating_from_one_node(case: Case) -> None:
    """The number is that of the limit, and 0 means none."""
    limit = MigratingPerNode(max=case.inputs["max_migrating_per_node"])
    entries = [f"mine-{number}" for number in range(case.inputs["migrating"])]

    case.check(allowed=not limit.refusal(an_eviction(), a_view(*entries)))


@peer_cases("migration.unavailable_filter")
def test_unavailable_and_migrating_replicas_count_together(case: Case) -> None:
    """Those of other workloads do not."""
    inputs = case.inputs
    limit = UnavailablePerWorkload(max=inputs["max_unavailable"])
    eviction = an_eviction(replicas=inputs["replicas"], unready=inputs["unavailable_not_migrating"])
    mine = [f"mine-{number}" for number in range(inputs["migrating_of_workload"])]

    refused = limit.refusal(eviction, a_view(*mine, others=inputs["migrating_of_other_workload"]))

    case.check(allowed=not refused)


@peer_cases("migration.expected_replicas")
def test_limits_below_the_replicas_allow_an_eviction(case: Case) -> None:
    """A workload may move when its limits are below its replicas."""
    inputs = case.inputs
    limits = Limits(
        migrating_per_workload=MigratingPerWorkload(max=inputs["max_migrating"]),
        unavailable_per_workload=UnavailablePerWorkload(max=inputs["max_unavailable"]),
    )

    case.check(allowed=limits.refusal(an_eviction(replicas=inputs["replicas"]), a_view()) is None)


@peer_cases("migration.eviction_cost")
def test_an_ordinary_eviction_cost_protects_no_pod(case: Case) -> None:
    """Only the highest does: tests/contracts/eviction/test_opt_out.py."""
    pod = a_pod(metadata={"annotations": {EVICTION_COST: str(case.inputs["eviction_cost"])}})
    candidate = Candidate(pod=pod, namespace=Namespace(), workload=a_workload(), owners=(a_deployment(),))

    case.check(allowed=not protection(candidate, RULES, NOW))
