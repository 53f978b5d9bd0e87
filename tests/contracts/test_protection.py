"""Which pods are never evicted, by rule."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from builders import NOW, a_workload
from hypothesis import given
from hypothesis import strategies as st
from kube_objects import a_deployment, a_pod, a_replica_set, owned_by

from equipoise.contracts.configuration.settings import Namespaces, Protection
from equipoise.contracts.eviction.gangs import GANG_KEYS, gang_of
from equipoise.contracts.eviction.protection import PROTECTIONS, REASON_LIMIT, Candidate, Rules, protection
from equipoise.contracts.kubernetes.objects.cluster import Namespace, NamespaceStatus
from equipoise.contracts.kubernetes.objects.metadata import Condition, ObjectMeta, OwnerReference
from equipoise.contracts.kubernetes.objects.pod import ClaimSource, Pod, SchedulingGroup, Volume, WorkloadReference
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject, WorkloadSpec, WorkloadStatus
from equipoise.contracts.plain_text import plain_text

OWN = "equipoise-system"
DELETED = datetime.fromtimestamp(NOW - 5, UTC)


def a_candidate(pod: Pod | None = None, **fields: Any) -> Candidate:
    """A pod that may be moved."""
    defaults: dict[str, Any] = {
        "pod": pod or a_pod(),
        "namespace": Namespace(metadata=ObjectMeta(name="shop")),
        "workload": a_workload(),
        "owners": (a_replica_set(), a_deployment()),
    }
    return Candidate(**(defaults | fields))


def why(candidate: Candidate, namespaces: Namespaces | None = None, now: float = NOW, **options: Any) -> str:
    rules = Rules(protection=Protection(**options), namespaces=namespaces or Namespaces(), own_namespace=OWN)
    return protection(candidate, rules, now)


def _meta(**fields: Any) -> Pod:
    return a_pod(metadata=fields)


def _volume(**fields: Any) -> Pod:
    return a_pod(spec={"volumes": [Volume(name="data", **fields)]})


def _top(**fields: Any) -> tuple[WorkloadObject, ...]:
    return (a_replica_set(), msgspec.structs.replace(a_deployment(), **fields))


def test_an_ordinary_pod_is_not_protected() -> None:
    """A running, ready pod of a healthy Deployment."""
    assert why(a_candidate()) == ""


PODS: dict[str, tuple[Pod, str]] = {
    "mirror": (_meta(annotations={"kubernetes.io/config.mirror": "x"}), "static"),
    "static": (_meta(annotations={"kubernetes.io/config.source": "file"}), "static"),
    "of a node": (_meta(owner_references=owned_by("Node", "node-a", "")), "static"),
    "bare": (_meta(owner_references=[]), "bare"),
    "owned but not controlled": (
        _meta(owner_references=[OwnerReference(kind="ReplicaSet", name="web-rs", uid="u")]),
        "bare",
    ),
    "daemon": (_meta(owner_references=owned_by("DaemonSet", "logs")), "DaemonSet"),
    "job": (_meta(owner_references=owned_by("Job", "sum", "batch")), "Job"),
    "PodGroup of Kubernetes": (
        a_pod(spec={"scheduling_group": SchedulingGroup(pod_group_name="training-0")}),
        "pod of a gang (PodGroup training-0)",
    ),
    "Workload of Kubernetes 1.35": (
        a_pod(spec={"workload_ref": WorkloadReference(name="training", pod_group="workers")}),
        "pod of a gang (Workload training)",
    ),
    "Volcano": (
        _meta(annotations={"scheduling.k8s.io/group-name": "podgroup-1"}),
        "pod of a gang (PodGroup of Volcano podgroup-1)",
    ),
    "runs to an end": (a_pod(spec={"restart_policy": "OnFailure"}), "OnFailure"),
    "critical": (a_pod(spec={"priority": 2_000_000_000}), "system-critical"),
    "critical by name": (a_pod(spec={"priority_class_name": "system-node-critical"}), "system-critical"),
    "terminating": (_meta(deletion_timestamp=DELETED), "terminating"),
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
    "opted out": (_meta(annotations={"equipoise.dev/evict": "false"}), "evict"),
    "opted in": (_meta(annotations={"equipoise.dev/evict": "true"}), "any value protects"),
    "opted nothing": (_meta(annotations={"equipoise.dev/evict": ""}), "any value protects"),
    "autoscaler": (_meta(annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}), "safe-to-evict"),
    "karpenter": (_meta(annotations={"karpenter.sh/do-not-disrupt": "true"}), "do-not-disrupt"),
    "karpenter nonsense": (_meta(annotations={"karpenter.sh/do-not-disrupt": "soon"}), "do-not-disrupt"),
    "karpenter for a while": (_meta(annotations={"karpenter.sh/do-not-disrupt": "1000h"}), "do-not-disrupt"),
    "dearest": (_meta(annotations={"scheduling.koordinator.sh/eviction-cost": "2147483647"}), "eviction-cost"),
    "excluded namespace": (_meta(namespace="kube-system"), "excluded"),
    "our own": (_meta(namespace=OWN), "itself"),
}


@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize("key", GANG_KEYS)
def test_a_pod_of_a_gang_is_protected(key: str, field: str) -> None:
    """Its label or annotation names the gang, and the reason says so. Without a name it belongs to none."""
    assert f"pod of a gang ({GANG_KEYS[key]} train)" in why(a_candidate(_meta(**{field: {key: "train"}})))
    assert why(a_candidate(_meta(**{field: {key: ""}}))) == ""


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


SIGS = "descheduler.alpha.kubernetes.io"
PROTECTING = [
    *((f"{SIGS}/prefer-no-eviction", value) for value in ("", "true", "false", "anything")),
    *((f"{SIGS}/evict", value) for value in ("false", "False", " no ", "0")),
    *(("karpenter.sh/do-not-evict", value) for value in ("true", "", "yes")),
    *(("karpenter.sh/do-not-disrupt", value) for value in ("true", "", "always")),
    *(("cluster-autoscaler.kubernetes.io/safe-to-evict", value) for value in ("false", "False")),
]
ASKING = [
    *((f"{SIGS}/evict", value) for value in ("true", "", "yes")),
    *(("karpenter.sh/do-not-evict", value) for value in ("false", "False")),
    *(("karpenter.sh/do-not-disrupt", value) for value in ("false", "False")),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "true"),
    ("scheduling.koordinator.sh/soft-eviction", '{"reason": "x"}'),
    ("descheduler.koordinator.sh/passed-arbitration", "true"),
]


@pytest.mark.parametrize(("annotation", "value"), PROTECTING)
def test_annotations_for_other_programs_protect(annotation: str, value: str) -> None:
    """Where the owner does not want an eviction, whatever program was to read it."""
    assert f'annotation {annotation}="{value}"' == why(a_candidate(_meta(annotations={annotation: value})))


@pytest.mark.parametrize(("annotation", "value"), ASKING)
def test_annotations_that_ask_for_an_eviction_have_no_effect(annotation: str, value: str) -> None:
    """They neither protect a pod nor take a protection away."""
    wanted = {annotation: value}

    assert why(a_candidate(_meta(annotations=wanted))) == ""
    assert "equipoise.dev/evict" in why(a_candidate(_meta(annotations=wanted | {"equipoise.dev/evict": "false"})))
    assert "bare" in why(a_candidate(_meta(annotations=wanted, owner_references=[])))


@pytest.mark.parametrize(("value", "protected"), [("false", True), ("true", False), ("", False)])
def test_pods_that_koordlet_may_not_evict_are_protected(value: str, protected: bool) -> None:
    """A label of the pod protects it."""
    assert protected == bool(why(a_candidate(_meta(labels={"koordinator.sh/eviction-enabled": value}))))


HOSTILE = "\x1b]52;c;ZXZpbA==\x07\x9b2J\u202e\n" + "x" * 250_000


@pytest.mark.parametrize(
    "candidate",
    [
        a_candidate(_meta(annotations={"equipoise.dev/evict": HOSTILE})),
        a_candidate(_meta(annotations={"karpenter.sh/do-not-disrupt": HOSTILE})),
        a_candidate(_meta(annotations={"karpenter.sh/do-not-evict": HOSTILE})),
        a_candidate(_meta(annotations={"descheduler.alpha.kubernetes.io/prefer-no-eviction": HOSTILE})),
        a_candidate(_meta(namespace=HOSTILE), namespace=None),
        a_candidate(
            _meta(),
            namespace=Namespace(metadata=ObjectMeta(annotations={"equipoise.dev/evict": HOSTILE})),
        ),
        a_candidate(_meta(), owners=_top(metadata=ObjectMeta(name=HOSTILE, annotations={"equipoise.dev/evict": "no"}))),
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


@pytest.mark.parametrize("cost", ["0", "-5", "2147483646", "+2147483647", "many", ""])
def test_an_ordinary_eviction_cost_does_not_protect(cost: str) -> None:
    """Only the maximum does, as in Koordinator."""
    assert why(a_candidate(_meta(annotations={"scheduling.koordinator.sh/eviction-cost": cost}))) == ""


def test_a_protection_for_a_duration_ends() -> None:
    """`karpenter.sh/do-not-disrupt` may have a duration."""
    pod = _meta(annotations={"karpenter.sh/do-not-disrupt": "5m"})
    assert why(a_candidate(pod)) == ""
    assert why(a_candidate(pod), now=NOW - 90_000 + 299)


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


def revisions(
    kind: str, strategy: dict[str, Any], *, updated: int, label: str = "", group: str = "apps", **status: Any
) -> Candidate:
    """A pod of a workload with six pods, of which `updated` have the newest revision, as its API object is read."""
    document = {
        "metadata": {"name": "db", "generation": 38},
        "spec": {"replicas": 6, "updateStrategy": strategy},
        "status": {
            "observedGeneration": 38, "replicas": 6, "readyReplicas": 6, "availableReplicas": 6,
            "updatedReplicas": updated, "currentRevision": "db-697c", "updateRevision": "db-74c4",
        } | status,
    }  # fmt: skip
    owner = msgspec.convert(document, WorkloadObject, strict=False)
    pod = a_pod(metadata={"labels": {"controller-revision-hash": label} if label else {}})
    return a_candidate(pod, workload=a_workload("db", kind=kind, group=group), owners=(owner,))


STEADY: dict[str, Candidate] = {
    "OnDelete, all new": revisions("StatefulSet", {"type": "OnDelete"}, updated=6),
    "OnDelete, a pod that is new": revisions("StatefulSet", {"type": "OnDelete"}, updated=2, label="db-74c4"),
    "all new, one was not ready for long": revisions("StatefulSet", {"type": "RollingUpdate"}, updated=6),
    "a missing pod": revisions(
        "StatefulSet", {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}, updated=3, replicas=5
    ),
    "maxUnavailable": revisions(
        "StatefulSet", {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}, updated=6
    ),
    "partition": revisions(
        "StatefulSet", {"type": "RollingUpdate", "rollingUpdate": {"partition": 4}}, updated=2, label="db-697c"
    ),
    "partition above the number of pods": revisions(
        "StatefulSet", {"type": "RollingUpdate", "rollingUpdate": {"partition": 999}}, updated=0
    ),
    "CloneSet with a partition": revisions("CloneSet", {"partition": 4}, updated=2, group="apps.kruise.io"),
    "CloneSet with a percentage": revisions("CloneSet", {"partition": "50%"}, updated=3, group="apps.kruise.io"),
    "CloneSet that keeps all but one": revisions("CloneSet", {"partition": "99%"}, updated=1, group="apps.kruise.io"),
    "CloneSet that reports what it expects": revisions(
        "CloneSet", {"partition": "10%"}, updated=2, group="apps.kruise.io", expectedUpdatedReplicas=2
    ),
    "paused CloneSet": revisions("CloneSet", {"paused": True}, updated=1, group="apps.kruise.io"),
    "CloneSet OnDelete with short hashes": revisions(
        "CloneSet", {"type": "OnDelete"}, updated=2, label="74c4", group="apps.kruise.io"
    ),
    "canary that waits": revisions(
        "Rollout", {}, updated=1, group="argoproj.io", currentRevision="", updateRevision="",
        pauseConditions=[{"reason": "CanaryPauseStep", "startTime": "2026-01-01T00:00:00Z"}], observedGeneration="38",
    ),
    "canary that failed": revisions(
        "Rollout", {}, updated=0, group="argoproj.io", currentRevision="", updateRevision="", abort=True
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STEADY)
def test_a_difference_of_revisions_that_remains_is_no_rollout(name: str) -> None:
    """An evicted pod is replaced by one of its own revision, and the controller updates no pod meanwhile."""
    assert why(STEADY[name]) == ""


@pytest.mark.parametrize("paused", ["Deployment", "Rollout"])
def test_a_workload_that_is_paused_is_not_rolling_out(paused: str) -> None:
    """Its ReplicaSets replace evicted pods, each with its own template."""
    owner = a_deployment(replicas=12, spec_replicas=10, updated_replicas=2, ready_replicas=12)
    spec = msgspec.structs.replace(owner.spec, paused=True)
    workload = a_workload(kind=paused, group="apps" if paused == "Deployment" else "argoproj.io")

    assert why(a_candidate(workload=workload, owners=(msgspec.structs.replace(owner, spec=spec),))) == ""
    assert "rolling out" in why(a_candidate(workload=workload, owners=(owner,)))


ROLLOUTS: dict[str, tuple[Candidate, str]] = {
    "OnDelete, a pod that is old": (
        revisions("StatefulSet", {"type": "OnDelete"}, updated=2, label="db-697c"), "would be of db-74c4"
    ),
    "OnDelete, a pod without the label": (
        revisions("StatefulSet", {"type": "OnDelete"}, updated=5), "would be of db-74c4"
    ),
    "some are old": (revisions("StatefulSet", {"type": "RollingUpdate"}, updated=5), "5 of 6 pods are new"),
    "no strategy": (revisions("StatefulSet", {}, updated=0), "0 of 6 pods are new"),
    "more are old than the partition keeps": (
        revisions("StatefulSet", {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}, updated=2),
        "rolling out db-74c4",
    ),
    "CloneSet": (revisions("CloneSet", {"partition": "50%"}, updated=2, group="apps.kruise.io"), "rolling out"),
    "CloneSet whose partition cannot be read": (
        revisions("CloneSet", {"partition": "half"}, updated=2, group="apps.kruise.io"), "rolling out"
    ),
    "CloneSet whose partition has too many digits": (
        revisions("CloneSet", {"partition": "9" * 5_000}, updated=2, group="apps.kruise.io"), "rolling out"
    ),
    "CloneSet whose percentage has too many digits": (
        revisions("CloneSet", {"partition": "9" * 400 + "%"}, updated=2, group="apps.kruise.io"), "rolling out"
    ),
    "Rollout": (
        revisions("Rollout", {}, updated=1, group="argoproj.io", currentRevision="", updateRevision=""), "rolling out"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROLLOUTS)
def test_a_rollout_in_progress_protects(name: str) -> None:
    """So does a pod that its eviction would update although its owner decides when."""
    candidate, expected = ROLLOUTS[name]
    assert expected in why(candidate)


def test_a_missing_replica_alone_is_no_rollout() -> None:
    """The limits count the missing pod of a Deployment."""
    owners = (a_deployment(replicas=10, ready_replicas=9, updated_replicas=9, available_replicas=9),)
    top = msgspec.structs.replace(owners[0], status=msgspec.structs.replace(owners[0].status, replicas=9))
    assert why(a_candidate(owners=(top,))) == ""


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
    assert why(a_candidate(_meta(namespace="kube-system")), Namespaces(include=("kube-system",))) == ""
    assert why(a_candidate(_meta(namespace=OWN)), Namespaces(include=(OWN,)))


@given(
    key=st.sampled_from(
        [
            "equipoise.dev/evict",
            "descheduler.alpha.kubernetes.io/evict",
            "scheduling.koordinator.sh/eviction-cost",
            "cluster-autoscaler.kubernetes.io/safe-to-evict",
            "karpenter.sh/do-not-disrupt",
        ]
    ),
    value=st.sampled_from(["true", "false", "yes", "", "5m"]),
    bearer=st.sampled_from(["pod", "owner", "namespace"]),
    protected=st.booleans(),
)
def test_no_annotation_lifts_a_protection(key: str, value: str, bearer: str, protected: bool) -> None:
    meta = ObjectMeta(name="shop")
    annotated = {key: value}
    pod = a_pod(
        metadata={"annotations": annotated if bearer == "pod" else {}},
        spec={"priority": 2_000_000_001 if protected else 0},
    )
    owner = a_deployment()
    if bearer == "owner":
        owner = msgspec.structs.replace(owner, metadata=msgspec.structs.replace(owner.metadata, annotations=annotated))
    if bearer == "namespace":
        meta = msgspec.structs.replace(meta, annotations=annotated)
    candidate = Candidate(
        pod=pod,
        namespace=Namespace(metadata=meta),
        workload=a_workload(),
        owners=(a_replica_set(), owner),
    )
    rules = Rules(protection=Protection(), namespaces=Namespaces(), own_namespace=OWN)
    if protected:
        assert protection(candidate, rules, NOW)
    if key == "equipoise.dev/evict":
        assert protection(candidate, rules, NOW)


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
