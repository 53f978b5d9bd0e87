"""Which pods are never evicted, by rule."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from builders import NOW, a_workload
from contracts.candidates import OWN, a_candidate, a_pod_with, why
from hypothesis import given
from hypothesis import strategies as st
from kube_objects import a_deployment, a_pod, a_replica_set, owned_by

from equipoise.contracts.configuration.moves import LEVELS
from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import Namespaces
from equipoise.contracts.eviction.candidate import Candidate, Rules
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.eviction.gangs import GANG_KEYS, gang_of
from equipoise.contracts.eviction.protection import PROTECTIONS, REASON_LIMIT, protection
from equipoise.contracts.kubernetes.objects.cluster import Namespace, NamespaceStatus
from equipoise.contracts.kubernetes.objects.metadata import Condition, ObjectMeta, OwnerReference
from equipoise.contracts.kubernetes.objects.pod import ClaimSource, Pod, SchedulingGroup, Volume, WorkloadReference
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject, WorkloadSpec, WorkloadStatus
from equipoise.contracts.plain_text import plain_text

DELETED = datetime.fromtimestamp(NOW - 5, UTC)


def _volume(**fields: Any) -> Pod:
    return a_pod(spec={"volumes": [Volume(name="data", **fields)]})


def _top(**fields: Any) -> tuple[WorkloadObject, ...]:
    return (a_replica_set(), msgspec.structs.replace(a_deployment(), **fields))


def test_an_ordinary_pod_is_not_protected() -> None:
    """A running, ready pod of a healthy Deployment."""
    assert why(a_candidate()) == ""


PODS: dict[str, tuple[Pod, str]] = {
    "mirror": (a_pod_with(annotations={"kubernetes.io/config.mirror": "x"}), "static"),
    "static": (a_pod_with(annotations={"kubernetes.io/config.source": "file"}), "static"),
    "of a node": (a_pod_with(owner_references=owned_by("Node", "node-a", "")), "static"),
    "bare": (a_pod_with(owner_references=[]), "bare"),
    "bare, and marked as detached": (
        a_pod_with(owner_references=[], annotations={DETACHED_HASH: "h1"}),
        f"bare pod: nothing would replace it (its annotation {DETACHED_HASH} proves no move)",
    ),
    "owned but not controlled": (
        a_pod_with(owner_references=[OwnerReference(kind="ReplicaSet", name="web-rs", uid="u")]),
        "bare",
    ),
    "daemon": (a_pod_with(owner_references=owned_by("DaemonSet", "logs")), "DaemonSet"),
    "job": (a_pod_with(owner_references=owned_by("Job", "sum", "batch")), "Job"),
    "PodGroup of Kubernetes": (
        a_pod(spec={"scheduling_group": SchedulingGroup(pod_group_name="training-0")}),
        "pod of a gang (PodGroup training-0)",
    ),
    "Workload of Kubernetes 1.35": (
        a_pod(spec={"workload_ref": WorkloadReference(name="training", pod_group="workers")}),
        "pod of a gang (Workload training)",
    ),
    "Volcano": (
        a_pod_with(annotations={"scheduling.k8s.io/group-name": "podgroup-1"}),
        "pod of a gang (PodGroup of Volcano podgroup-1)",
    ),
    "runs to an end": (a_pod(spec={"restart_policy": "OnFailure"}), "OnFailure"),
    "critical": (a_pod(spec={"priority": 2_000_000_000}), "system-critical"),
    "critical by name": (a_pod(spec={"priority_class_name": "system-node-critical"}), "system-critical"),
    "terminating": (a_pod_with(deletion_timestamp=DELETED), "terminating"),
    "pending": (a_pod(status={"phase": "Pending"}), "Pending"),
    "unready": (
        a_pod(status={"conditions": [Condition(type="Ready", status="False")]}),
        "not ready",
    ),
    "no condition": (a_pod(status={"conditions": []}), "not ready"),
    "emptyDir": (_volume(empty_dir={}), "localStorage"),
    "hostPath": (_volume(host_path={"path": "/data"}), "localStorage"),
    "claim": (_volume(persistent_volume_claim=ClaimSource(claim_name="c")), "persistentVolumes"),
    "ephemeral claim": (_volume(ephemeral={}), "persistentVolumes"),
    "devices": (a_pod(spec={"resource_claims": [{"name": "gpu"}]}), "devices"),
    "opted out": (a_pod_with(annotations={"equipoise.dev/evict": "false"}), "evict"),
    "opted in": (a_pod_with(annotations={"equipoise.dev/evict": "true"}), "any value protects"),
    "opted nothing": (a_pod_with(annotations={"equipoise.dev/evict": ""}), "any value protects"),
    "autoscaler": (
        a_pod_with(annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}),
        "safe-to-evict",
    ),
    "karpenter": (a_pod_with(annotations={"karpenter.sh/do-not-disrupt": "true"}), "do-not-disrupt"),
    "karpenter nonsense": (a_pod_with(annotations={"karpenter.sh/do-not-disrupt": "soon"}), "do-not-disrupt"),
    "karpenter for a while": (a_pod_with(annotations={"karpenter.sh/do-not-disrupt": "1000h"}), "do-not-disrupt"),
    "dearest": (a_pod_with(annotations={"scheduling.koordinator.sh/eviction-cost": "2147483647"}), "eviction-cost"),
    "excluded namespace": (a_pod_with(namespace="kube-system"), "excluded"),
    "our own": (a_pod_with(namespace=OWN), "itself"),
}


@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize("key", GANG_KEYS)
def test_a_pod_of_a_gang_is_protected(key: str, field: str) -> None:
    """Its label or annotation names the gang, and the reason says so. Without a name it belongs to none."""
    assert f"pod of a gang ({GANG_KEYS[key]} train)" in why(a_candidate(a_pod_with(**{field: {key: "train"}})))
    assert why(a_candidate(a_pod_with(**{field: {key: ""}}))) == ""


@pytest.mark.parametrize("key", GANG_KEYS)
def test_the_name_of_a_gang_is_one_line_of_bounded_length(key: str) -> None:
    """Annotations may contain any text. A PodGroup of Kubernetes has a name that the API server has checked."""
    gang = gang_of(a_pod_with(annotations={key: HOSTILE}))
    named = gang_of(a_pod(spec={"scheduling_group": SchedulingGroup(pod_group_name="x" * 253)}))

    assert gang.isprintable()
    assert len(gang) < 120
    assert named == f"PodGroup {'x' * 62}…"


def test_the_group_of_a_pod_is_read_as_kubernetes_writes_it() -> None:
    """Since 1.36 its PodGroup, in 1.35 its Workload."""
    document = b'{"spec": {"containers": [], "schedulingGroup": {"podGroupName": "a"}}}'
    older = b'{"spec": {"containers": [], "workloadRef": {"name": "b", "podGroup": "workers"}}}'

    assert [gang_of(msgspec.json.decode(text, type=Pod)) for text in (document, older)] == [
        "PodGroup a", "Workload b"
    ]  # fmt: skip


def test_a_pod_with_more_constraints_than_are_planned_with_is_protected() -> None:
    """One of them more, and the reason states how many are planned with."""
    pod, other = (
        a_pod(spec={"node_selector": {f"key-{index}": "a" for index in range(count)}}) for count in (500, 501)
    )
    assert why(a_candidate(pod)) == ""
    assert why(a_candidate(other)) == "it has more than 500 scheduling constraints, which are not planned with"


@pytest.mark.parametrize("name", PODS)
def test_a_pod_is_protected_by_its_own_fields(name: str) -> None:
    """The reason names the rule."""
    pod, expected = PODS[name]
    assert expected in why(a_candidate(pod))


HOSTILE = "\x1b]52;c;ZXZpbA==\x07\x9b2J\u202e\n" + "x" * 250_000


@pytest.mark.parametrize(
    "candidate",
    [
        a_candidate(a_pod_with(annotations={"equipoise.dev/evict": HOSTILE})),
        a_candidate(a_pod_with(annotations={"karpenter.sh/do-not-disrupt": HOSTILE})),
        a_candidate(a_pod_with(annotations={"karpenter.sh/do-not-evict": HOSTILE})),
        a_candidate(a_pod_with(annotations={"descheduler.alpha.kubernetes.io/prefer-no-eviction": HOSTILE})),
        a_candidate(a_pod_with(namespace=HOSTILE), namespace=None),
        a_candidate(
            a_pod_with(),
            namespace=Namespace(metadata=ObjectMeta(annotations={"equipoise.dev/evict": HOSTILE})),
        ),
        a_candidate(
            a_pod_with(), owners=_top(metadata=ObjectMeta(name=HOSTILE, annotations={"equipoise.dev/evict": "no"}))
        ),
        a_candidate(a_pod(status={"phase": HOSTILE})),
        a_candidate(unreadable=HOSTILE),
        a_candidate(
            owners=_top(
                status=WorkloadStatus(conditions=[Condition(type="ReplicaFailure", status="True", reason=HOSTILE)])
            )
        ),
        a_candidate(
            owners=_top(status=WorkloadStatus(ready_replicas=3, update_revision=HOSTILE, current_revision="x"))
        ),
    ],
    ids=[
        "opt-out",
        "karpenter",
        "karpenter before",
        "sigs",
        "namespace",
        "annotation of the namespace",
        "owner",
        "phase",
        "unreadable",
        "condition",
        "revision",
    ],
)
def test_a_reason_is_short_and_has_no_control_character(candidate: Candidate) -> None:
    """Whoever wrote the text: it reaches terminals, and messages whose size is limited."""
    reason = why(candidate)

    assert 0 < len(reason) <= REASON_LIMIT
    assert plain_text(reason, REASON_LIMIT) == reason


@pytest.mark.parametrize(
    ("now", "before", "replicas", "protected"),
    [
        (10, (10, 10), 10, False),
        (12, (10, 10), 12, True),  # grown
        (8, (10, 10), 8, True),  # shrunk
        (9, (10, 10), 10, False),  # one is on its way
        (10, (11, 11), 10, True),  # shrunk by one
        (10, (9, 10), 10, False),  # one was about to end then
        (10, (10, 11), 10, False),
        (30, (30, 30), 10, False),  # nothing happened of late
        (None, None, 10, False),  # not known
    ],
)
def test_a_recently_scaled_workload_is_protected(
    now: int | None, before: tuple[int, int] | None, replicas: int, protected: bool
) -> None:
    """More pods than five minutes ago, or fewer pods and fewer desired. A missing pod alone is no scaling."""
    candidate = a_candidate(owners=(a_deployment(replicas=replicas),), pods_now=now, pods_before=before)
    assert ("scaled recently" in why(candidate)) == protected


WORKLOADS: dict[str, tuple[dict[str, Any], str]] = {
    "unreadable": ({"unreadable": "may not be read", "owners": ()}, "may not be read"),
    "unknown workload": ({"workload": None, "owners": ()}, "not known"),
    "unknown kind": ({"workload": a_workload("db", kind="Etcd", group="coreos.com"), "owners": ()}, "kind"),
    "Kruise's own StatefulSet": (
        {"workload": a_workload("db", kind="StatefulSet", group="apps.kruise.io"), "owners": ()},
        "kind",
    ),
    "not read": ({"owners": ()}, "not read"),
    "deleted": (
        {"owners": _top(metadata=ObjectMeta(name="web", deletion_timestamp=DELETED))},
        "being deleted",
    ),
    "opted out": (
        {"owners": _top(metadata=ObjectMeta(name="web", annotations={"equipoise.dev/evict": "false"}))},
        "of Deployment web",
    ),
    "namespace opted out": (
        {"namespace": Namespace(metadata=ObjectMeta(name="shop", annotations={"equipoise.dev/evict": "no"}))},
        "namespace shop",
    ),
    "namespace terminating": (
        {"namespace": Namespace(status=NamespaceStatus(phase="Terminating"))},
        "terminating",
    ),
    "namespace deleted": (
        {"namespace": Namespace(metadata=ObjectMeta(deletion_timestamp=DELETED))},
        "terminating",
    ),
    "namespace unknown": ({"namespace": None}, "namespace shop is not known"),
    "single": ({"owners": (a_deployment(replicas=1),)}, "minReplicas"),
    "default replicas": ({"owners": _top(spec=WorkloadSpec())}, "minReplicas"),
    "scaled to zero": ({"owners": (a_deployment(replicas=0),)}, "zero"),
    "unseen change": ({"owners": (a_deployment(observed_generation=0),)}, "not processed"),
    "old pods left": ({"owners": (a_deployment(updated_replicas=7),)}, "rolling out"),
    "new revision": (
        {
            "workload": a_workload(kind="StatefulSet"),
            "owners": (a_deployment(current_revision="web-1", update_revision="web-2", updated_replicas=0),),
        },
        "rolling out",
    ),
    "pods left over": ({"owners": (a_deployment(replicas=10, spec_replicas=9),)}, "scaled down"),
    "none ready": ({"owners": (a_deployment(ready_replicas=0),)}, "no ready replica"),
    "one ready": ({"owners": (a_deployment(ready_replicas=1),)}, "1 ready replica"),
    "cannot create": (
        {
            "owners": (
                a_deployment(conditions=[Condition(type="ReplicaFailure", status="True", reason="FailedCreate")]),
            )
        },
        "cannot create pods (FailedCreate)",
    ),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_pod_is_protected_by_its_owners_and_namespace(name: str) -> None:
    """What cannot be read protects, too."""
    fields, expected = WORKLOADS[name]
    assert expected in why(a_candidate(**fields))


DATABASE = a_candidate(workload=a_workload("db", kind="StatefulSet"), owners=(a_deployment(),))
KRUISE = a_candidate(workload=a_workload("db", kind="StatefulSet", group="apps.kruise.io"), owners=(a_deployment(),))


@pytest.mark.parametrize("candidate", [DATABASE, KRUISE])
def test_at_a_level_the_pods_of_a_stateful_set_are_moved_only_if_it_is_named(candidate: Candidate) -> None:
    """Without a level and without names, they are moved as in versions that had neither."""
    assert why(candidate) == ""
    for level in LEVELS:
        assert "not named" in why(candidate, level=level)
        assert why(candidate, level=level, stateful_sets=("bank/db", "shop/db")) == ""
        assert why(a_candidate(), level=level) == ""


@pytest.mark.parametrize(
    ("names", "moved"),
    [((), False), (("shop/db",), True), (("shop/*",), True), (("*/db",), True), (("*",), True), (("shop/d",), False),
     (("shop/DB",), False), (("bank/db",), False), (("bank/*", "shop/d*"), True)],
)  # fmt: skip
def test_names_of_stateful_sets_may_contain_wildcards(names: tuple[str, ...], moved: bool) -> None:
    assert (why(DATABASE, stateful_sets=names) == "") is moved


@pytest.mark.parametrize("name", ["db", "", "apps/shop/db", "**"])
def test_a_stateful_set_is_named_with_its_namespace(name: str) -> None:
    with pytest.raises(ValueError, match="namespace/name"):
        Protection(stateful_sets=("shop/db", name))


def test_options_lift_a_protection() -> None:
    """Only the one that they are about."""
    assert why(a_candidate(_volume(empty_dir={})), local_storage=True) == ""
    assert why(a_candidate(_volume(ephemeral={})), local_storage=True)
    assert why(a_candidate(_volume(ephemeral={})), persistent_volumes=True) == ""
    assert why(a_candidate(a_pod(spec={"priority": 100})), priority_threshold=100)
    assert why(a_candidate(a_pod(spec={"priority": 99})), priority_threshold=100) == ""
    assert why(a_candidate(a_pod(spec={"priority": 2_000_000_000})), priority_threshold=2_100_000_000)
    assert why(a_candidate(owners=(a_deployment(replicas=1),)), min_replicas=1) == ""
    assert why(a_candidate(), Namespaces(include=("bank",)))
    assert why(a_candidate(a_pod_with(namespace="kube-system")), Namespaces(include=("kube-system",))) == ""
    assert why(a_candidate(a_pod_with(namespace=OWN)), Namespaces(include=(OWN,)))


@given(st.data())
def test_a_protection_is_never_overruled(data: st.DataObject) -> None:
    """A pod is protected if any rule protects it."""
    pod = a_pod(
        metadata={
            "annotations": data.draw(st.dictionaries(st.sampled_from(["equipoise.dev/evict"]), st.text(max_size=5)))
        },
        spec={
            "priority": data.draw(st.sampled_from([0, 2_000_000_000])),
            "restart_policy": data.draw(st.sampled_from(["Always", "Never"])),
            "volumes": data.draw(st.sampled_from([[], [Volume(name="v", empty_dir={})]])),
        },
        status={"phase": data.draw(st.sampled_from(["Running", "Pending"]))},
    )
    candidate = Candidate(
        pod=pod,
        namespace=data.draw(st.sampled_from([None, Namespace()])),
        workload=data.draw(st.sampled_from([None, a_workload()])),
        owners=data.draw(st.sampled_from([(), (a_deployment(),), (a_deployment(replicas=1),)])),
        unreadable=data.draw(st.sampled_from(["", "secret"])),
    )
    rules = Rules(protection=Protection(), namespaces=Namespaces(), own_namespace=OWN)
    any_says_no = any(rule(candidate, rules, NOW) for rule in PROTECTIONS.values())
    assert bool(protection(candidate, rules, NOW)) == any_says_no
