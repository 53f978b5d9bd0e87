"""Which pods may be moved without a gap."""

from typing import Any

import msgspec
import pytest
from builders import a_workload
from contracts.candidates import a_candidate
from kube_objects import a_deployment, a_pod, a_replica_set

from equipoise.contracts.eviction.candidate import Candidate
from equipoise.contracts.eviction.surge import SURGE_RULES, TEMPLATE_HASH, SurgeCandidate, surge_refusal
from equipoise.contracts.kubernetes.objects.cluster import Namespace, ResourceQuota, ResourceQuotaStatus
from equipoise.contracts.kubernetes.objects.metadata import (
    LabelSelector,
    ObjectMeta,
    ResourceRequirements,
    SelectorRequirement,
)
from equipoise.contracts.kubernetes.objects.pod import ClaimSource, Container, ContainerPort, Pod, Volume
from equipoise.contracts.kubernetes.objects.workload import (
    DeploymentStrategy,
    KubernetesService,
    KubernetesServiceSpec,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    RollingUpdateOfDeployment,
    WorkloadObject,
)

LABELS = {"app": "web", TEMPLATE_HASH: "h1"}
replace = msgspec.structs.replace


def a_surging_pod(**fields: Any) -> Pod:
    return a_pod(metadata={"labels": LABELS, **fields.pop("metadata", {})}, **fields)


def a_surging_deployment(
    replicas: int = 1, kind: str = "RollingUpdate", surge: int | str | None = "25%", **spec: Any
) -> WorkloadObject:
    deployment = a_deployment(replicas=replicas)
    strategy = DeploymentStrategy(type=kind, rolling_update=RollingUpdateOfDeployment(max_surge=surge))
    return replace(deployment, spec=replace(deployment.spec, strategy=strategy, **spec))


def a_surge_candidate(pod: Pod | None = None, deployment: WorkloadObject | None = None, **objects: Any) -> Any:
    replica_set = a_replica_set(replicas=1)
    selector = LabelSelector(match_labels=LABELS)
    replica_set = replace(replica_set, spec=replace(replica_set.spec, selector=selector))
    owners = (replica_set, deployment or a_surging_deployment())
    fields = {key: objects.pop(key) for key in ("workload", "namespace") if key in objects}
    candidate = a_candidate(pod or a_surging_pod(), owners=owners, **fields)
    return SurgeCandidate(candidate=candidate, **objects)


def a_pod_requesting(**requests: str) -> Pod:
    quantities = {name.replace("__", "/").replace("_", "."): text for name, text in requests.items()}
    return a_surging_pod(
        spec={"containers": [Container(name="main", resources=ResourceRequirements(requests=quantities))]}
    )


def a_quota(**hard: str) -> ResourceQuota:
    names = {name.replace("_", "."): text for name, text in hard.items()}
    status = ResourceQuotaStatus(hard=names, used=dict.fromkeys(names, "1"))
    return ResourceQuota(metadata=ObjectMeta(name="quota"), status=status)


def a_service(**selector: str) -> KubernetesService:
    keys = {key.replace("_", "-"): value for key, value in selector.items()}
    return KubernetesService(metadata=ObjectMeta(name="web"), spec=KubernetesServiceSpec(selector=keys))


def a_budget(name: str = "web", **selector: Any) -> PodDisruptionBudget:
    spec = PodDisruptionBudgetSpec(selector=LabelSelector(**selector))
    return PodDisruptionBudget(metadata=ObjectMeta(name=name), spec=spec)


@pytest.mark.parametrize("replicas", [1, 2, 30])
@pytest.mark.parametrize("surge", [1, "1%", "25%", "100%"])
def test_a_pod_of_a_deployment_that_surges_may_be_moved(replicas: int, surge: int | str) -> None:
    objects = {
        "services": [a_service(app="web"), a_service(app="db"), a_service()],
        "budgets": [a_budget(match_labels={"app": "web"}), a_budget("db", match_labels={"app": "db"})],
        "quotas": [a_quota(pods="2", requests_cpu="1500m", limits_cpu="1", services="1")],
    }
    assert surge_refusal(a_surge_candidate(deployment=a_surging_deployment(replicas, surge=surge), **objects)) == ""


def a_pod_with_port(port: int) -> Pod:
    return a_surging_pod(spec={"containers": [Container(name="main", ports=[ContainerPort(host_port=port)])]})


CLAIM = Volume(name="data", persistent_volume_claim=ClaimSource(claim_name="data"))
HASH_EXISTS = SelectorRequirement(key=TEMPLATE_HASH, operator="Exists")
HASH_MISSING = SelectorRequirement(key=TEMPLATE_HASH, operator="DoesNotExist")
WEB = {"app": "web"}
COMPLETE = a_deployment(replicas=1).status
NO = {"equipoise.dev/surge": "false"}
REFUSED = {
    "opted out": [
        a_surge_candidate(a_surging_pod(metadata={"annotations": NO})),
        a_surge_candidate(namespace=Namespace(metadata=ObjectMeta(name="shop", annotations=NO))),
        a_surge_candidate(
            deployment=replace(a_surging_deployment(), metadata=replace(a_deployment().metadata, annotations=NO))
        ),
    ],
    "node is emptied": [a_surge_candidate(leaving="node is cordoned")],
    "no Deployment": [
        a_surge_candidate(workload=a_workload(kind="StatefulSet")),
        a_surge_candidate(workload=a_workload(kind="ReplicaSet")),
        a_surge_candidate(workload=a_workload(kind="Rollout", group="argoproj.io")),
        a_surge_candidate(workload=None),
    ],
    "no template hash": [a_surge_candidate(a_pod()), a_surge_candidate(a_surging_pod(metadata={"labels": WEB}))],
    "no surge allowed": [
        a_surge_candidate(deployment=a_surging_deployment(kind="Recreate")),
        *(a_surge_candidate(deployment=a_surging_deployment(surge=surge)) for surge in (0, "0%", "0", "x", None)),
    ],
    "paused": [a_surge_candidate(deployment=a_surging_deployment(paused=True))],
    "not complete": [
        a_surge_candidate(deployment=replace(a_surging_deployment(), status=replace(COMPLETE, **status)))
        for status in ({"ready_replicas": 0}, {"available_replicas": 0}, {"replicas": 2})
    ],
    "disks": [a_surge_candidate(a_surging_pod(spec={"volumes": [CLAIM]}))],
    "host ports": [a_surge_candidate(a_pod_with_port(80))],
    "devices": [
        a_surge_candidate(a_pod_requesting(nvidia_com__gpu="1")),
        a_surge_candidate(a_pod_requesting(hugepages="1")),
    ],
    "selected by template": [
        a_surge_candidate(services=[a_service(app="web", pod_template_hash="h1")]),
        a_surge_candidate(budgets=[a_budget(match_labels=LABELS)]),
        a_surge_candidate(budgets=[a_budget(match_labels=WEB, match_expressions=[HASH_EXISTS])]),
        a_surge_candidate(budgets=[a_budget(match_labels=WEB, match_expressions=[HASH_MISSING])]),
        a_surge_candidate(
            a_surging_pod(metadata={"labels": LABELS | {"rollouts-pod-template-hash": "r"}}),
            services=[a_service(rollouts_pod_template_hash="r")],
        ),
    ],
    "several budgets": [a_surge_candidate(budgets=[a_budget(name, match_labels=WEB) for name in ("one", "two")])],
    "quota": [
        a_surge_candidate(quotas=[a_quota(pods="1")]),
        a_surge_candidate(quotas=[a_quota(requests_cpu="1400m")]),
        a_surge_candidate(quotas=[a_quota(memory="1Gi")]),
        a_surge_candidate(quotas=[a_quota(pods="many")]),
    ],
    "not readable": [a_surge_candidate(quotas=[ResourceQuota(metadata=ObjectMeta(name="q", unreadable="status"))])],
}  # fmt: skip


@pytest.mark.parametrize(("rule", "surge"), [(rule, surge) for rule, cases in REFUSED.items() for surge in cases])
def test_each_reason_refuses(rule: str, surge: SurgeCandidate) -> None:
    """By its own rule, and in one line."""
    assert SURGE_RULES[rule](surge)
    assert "\n" not in surge_refusal(surge)
    assert surge_refusal(surge)


def test_every_rule_has_an_example() -> None:
    assert REFUSED.keys() == SURGE_RULES.keys()


def test_a_template_that_selects_other_pods_does_not_refuse() -> None:
    """The Service of a canary, whose pods have another template."""
    assert surge_refusal(a_surge_candidate(services=[a_service(app="web", pod_template_hash="h2")])) == ""


def test_an_owner_without_objects_is_refused() -> None:
    candidate: Candidate = a_candidate(a_surging_pod(), owners=())
    assert surge_refusal(SurgeCandidate(candidate=candidate))
