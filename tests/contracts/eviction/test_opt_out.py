"""Annotations with which an owner refuses an eviction, for Equipoise or for other programs."""

import msgspec
import pytest
from builders import NOW, a_workload
from contracts.candidates import OWN, a_candidate, a_pod_with, why
from hypothesis import given
from hypothesis import strategies as st
from kube_objects import a_deployment, a_pod, a_replica_set

from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import Namespaces
from equipoise.contracts.eviction.candidate import Candidate, Rules
from equipoise.contracts.eviction.protection import protection
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta

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
    assert f'annotation {annotation}="{value}"' == why(a_candidate(a_pod_with(annotations={annotation: value})))


@pytest.mark.parametrize(("annotation", "value"), ASKING)
def test_annotations_that_ask_for_an_eviction_have_no_effect(annotation: str, value: str) -> None:
    """They neither protect a pod nor take a protection away."""
    wanted = {annotation: value}

    assert why(a_candidate(a_pod_with(annotations=wanted))) == ""
    assert "equipoise.dev/evict" in why(a_candidate(a_pod_with(annotations=wanted | {"equipoise.dev/evict": "false"})))
    assert "bare" in why(a_candidate(a_pod_with(annotations=wanted, owner_references=[])))


@pytest.mark.parametrize(("value", "protected"), [("false", True), ("true", False), ("", False)])
def test_pods_that_koordlet_may_not_evict_are_protected(value: str, protected: bool) -> None:
    """A label of the pod protects it."""
    assert protected == bool(why(a_candidate(a_pod_with(labels={"koordinator.sh/eviction-enabled": value}))))


@pytest.mark.parametrize("cost", ["0", "-5", "2147483646", "+2147483647", "many", ""])
def test_an_ordinary_eviction_cost_does_not_protect(cost: str) -> None:
    """Only the maximum does, as in Koordinator."""
    assert why(a_candidate(a_pod_with(annotations={"scheduling.koordinator.sh/eviction-cost": cost}))) == ""


def test_a_protection_for_a_duration_ends() -> None:
    """`karpenter.sh/do-not-disrupt` may have a duration."""
    pod = a_pod_with(annotations={"karpenter.sh/do-not-disrupt": "5m"})
    assert why(a_candidate(pod)) == ""
    assert why(a_candidate(pod), now=NOW - 90_000 + 299)


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
