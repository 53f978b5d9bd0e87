"""VolumeBinding: bound claims, and claims that wait for the first consumer."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kube_objects import owned_by
from scheduling.pods import a_framework, a_node, a_pod
from scheduling.storage import HOST, ZONE, a_claim, a_class, a_storage, a_volume, refusals, uses

from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, ObjectReference, SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import NodeSelector, NodeSelectorTerm
from equipoise.contracts.kubernetes.objects.pod import Volume
from equipoise.contracts.kubernetes.objects.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.status import SKIP, Code, PluginStatus
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.model.volumes import BETA_CLASS, SELECTED_NODE, Volumes
from equipoise.scheduling.plugins.volumes.volume_binding import (
    NODE_CONFLICT,
    NOTHING_TO_BIND,
    UNBOUND,
    VOLUME_MISSING,
    ChosenVolumes,
    VolumeBinding,
)

CLUSTER = ClusterSnapshot(
    [a_node("a", labels={ZONE: "1"}), a_node("b", labels={ZONE: "2"}), a_node("c", labels={ZONE: "2"})]
)
NEVER = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
LOST = a_claim(volume="pv", phase="Lost")


def reasons(found: Mapping[str, PluginStatus]) -> dict[str, tuple[str, ...]]:
    assert all(each.code == NEVER for each in found.values())
    return {name: each.reasons for name, each in found.items()}


def of_pod(storage: Volumes, *claims: str, snapshot: ClusterSnapshot = CLUSTER) -> dict[str, tuple[str, ...]]:
    """Reasons by node, for a pod with these claims."""
    return reasons(refusals(VolumeBinding(storage), a_pod(volumes=uses(*claims)), snapshot))


def chosen(storage: Volumes, node: str, *claims: str, plugin: VolumeBinding | None = None) -> ChosenVolumes:
    state, plugin = CycleState(), plugin or VolumeBinding(storage)
    assert node not in refusals(plugin, a_pod(volumes=uses(*claims)), CLUSTER, state)
    return plugin.chosen(state, node)


# Claims that cannot be used


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        (None, 'persistentvolumeclaim "data" not found'),
        (LOST, 'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"'),
        (
            a_claim(volume="pv", metadata={"deletion_timestamp": datetime.fromtimestamp(0, UTC)}),
            'persistentvolumeclaim "data" is being deleted',
        ),
        (a_claim(storage_class="now"), UNBOUND),
        (a_claim(storage_class="unknown"), UNBOUND),
        (a_claim(), UNBOUND),
        (a_claim(storage_class="late", volume="pv", metadata={"annotations": {}}), UNBOUND),
    ],
    ids=["none", "lost", "deleted", "immediate", "unknown class", "no class", "bound in one direction"],
)
def test_a_claim_that_cannot_be_used_refuses_the_pod(claim: PersistentVolumeClaim | None, reason: str) -> None:
    """No preemption helps."""
    classes = [a_class("now", waits=False), a_class("late")]
    storage = a_storage(claims=[claim] if claim else [], volumes=[a_volume("pv")], classes=classes)

    assert of_pod(storage, "data") == dict.fromkeys("abc", (reason,))


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        (None, 'waiting for ephemeral volume controller to create the persistentvolumeclaim "pod-1-x"'),
        (
            a_claim("pod-1-x", volume="pv", metadata={"owner_references": owned_by("Pod", "other")}),
            "PVC default/pod-1-x was not created for pod default/pod-1 (pod is not owner)",
        ),
        (a_claim("pod-1-x", volume="pv", metadata={"owner_references": owned_by("Pod", "pod-1")}), None),
    ],
    ids=["none", "of another pod", "of the pod"],
)
def test_the_claim_of_an_ephemeral_volume_is_one_of_the_pod(
    claim: PersistentVolumeClaim | None, reason: str | None
) -> None:
    """It is created after the pod."""
    storage = a_storage(claims=[claim] if claim else [], volumes=[a_volume("pv")])

    found = refusals(VolumeBinding(storage), a_pod(volumes=[Volume(name="x", ephemeral={})]), CLUSTER)

    assert reasons(found) == (dict.fromkeys("abc", (reason,)) if reason else {})


def test_a_pod_without_claims_skips_the_filter() -> None:
    """And nothing is chosen for it."""
    plugin, state = VolumeBinding(a_storage()), CycleState()
    a_framework(plugin).pre_filter(state, a_pod(), CLUSTER)

    assert state.skipped_filters == {"VolumeBinding"}
    assert plugin.chosen(state, "a") == ChosenVolumes()


# Bound claims


def test_a_bound_volume_is_used_where_its_node_affinity_matches() -> None:
    """No preemption helps elsewhere."""
    storage = a_storage(claims=[a_claim(volume="pv")], volumes=[a_volume("pv", node_labels={ZONE: ["2"]})])

    assert of_pod(storage, "data") == {"a": (NODE_CONFLICT,)}


def test_the_first_claim_with_a_fault_is_the_reason() -> None:
    """A volume that does not exist refuses the nodes that are left."""
    claims = [a_claim("data", volume="pv"), a_claim("gone", volume="gone")]
    storage = a_storage(claims=claims, volumes=[a_volume("pv", node_labels={ZONE: ["2"]})])

    assert of_pod(storage, "data", "gone") == {
        "a": (NODE_CONFLICT,),
        "b": (VOLUME_MISSING,),
        "c": (VOLUME_MISSING,),
    }
    assert of_pod(storage, "gone", "data") == dict.fromkeys("abc", (VOLUME_MISSING,))


def test_a_node_has_the_reasons_of_bound_and_of_waiting_claims() -> None:
    """In this order."""
    claims = [a_claim("data", volume="pv"), a_claim("late", storage_class="local")]
    volumes = [a_volume("pv", node_labels={ZONE: ["2"]})]
    storage = a_storage(claims=claims, volumes=volumes, classes=[a_class("local")])

    assert of_pod(storage, "data", "late")["a"] == (NODE_CONFLICT, NOTHING_TO_BIND)


# Claims that wait for the first consumer


def test_a_waiting_claim_is_bound_where_a_volume_fits() -> None:
    """A class without a provisioner has only the volumes that exist."""
    volumes = [a_volume("pv", storage_class="local", node_labels={HOST: ["b"]})]
    storage = a_storage(claims=[a_claim(storage_class="local")], volumes=volumes, classes=[a_class()])

    assert of_pod(storage, "data") == {"a": (NOTHING_TO_BIND,), "c": (NOTHING_TO_BIND,)}
    assert chosen(storage, "b", "data") == ChosenVolumes(bound={("default", "data"): "pv"})


OTHER = a_claim("other")


@pytest.mark.parametrize(
    "volume",
    [
        a_volume(storage_class="local", size="900Mi"),
        a_volume(storage_class="other"),
        a_volume(storage_class="local", modes=["ReadOnlyMany"]),
        a_volume(storage_class="local", phase="Released"),
        a_volume(storage_class="local", claim=OTHER),
        a_volume(storage_class="local", volume_mode="Block"),
        a_volume(storage_class="local", volume_attributes_class_name="gold"),
        a_volume(storage_class="local", labels={"disk": "hdd"}),
        a_volume(storage_class="local", metadata={"deletion_timestamp": datetime.fromtimestamp(0, UTC)}),
    ],
    ids=["small", "class", "mode", "phase", "reserved", "block", "attributes", "selector", "deleted"],
)
def test_a_volume_that_does_not_fit_is_not_bound(volume: PersistentVolume) -> None:
    """Size, class, access modes, phase, and whatever else a claim asks for."""
    claim = a_claim(storage_class="local", selector=LabelSelector(match_labels={"disk": "ssd"}))
    fits = a_volume(storage_class="local", labels={"disk": "ssd"})
    labelled = {"disk": "ssd"} if not volume.metadata.labels else volume.metadata.labels
    volume = a_volume(
        storage_class=volume.spec.storage_class_name,
        size=volume.spec.capacity["storage"],
        modes=volume.spec.access_modes,
        phase=volume.status.phase,
        labels=labelled,
        claim=OTHER if volume.spec.claim_ref else None,
        volume_mode=volume.spec.volume_mode,
        volume_attributes_class_name=volume.spec.volume_attributes_class_name,
        metadata={"deletion_timestamp": volume.metadata.deletion_timestamp},
    )

    assert of_pod(a_storage(claims=[claim], volumes=[fits], classes=[a_class()]), "data") == {}
    storage = a_storage(claims=[claim], volumes=[volume], classes=[a_class()])
    assert of_pod(storage, "data") == dict.fromkeys("abc", (NOTHING_TO_BIND,))


def test_the_smallest_volume_is_bound_first_to_the_smallest_claim() -> None:
    """So that more claims can be bound."""
    claims = [a_claim("large", storage_class="local", size="2Gi"), a_claim("small", storage_class="local", size="1Gi")]
    volumes = [a_volume(f"pv-{size}", storage_class="local", size=f"{size}Gi") for size in (4, 3, 1)]
    storage = a_storage(claims=claims, volumes=volumes, classes=[a_class()])

    assert chosen(storage, "a", "large", "small").bound == {("default", "small"): "pv-1", ("default", "large"): "pv-3"}


def test_a_volume_is_bound_to_one_claim() -> None:
    """A second claim of the pod needs another."""
    claims = [a_claim("x", storage_class="local"), a_claim("y", storage_class="local")]
    storage = a_storage(claims=claims, volumes=[a_volume(storage_class="local")], classes=[a_class()])

    assert of_pod(storage, "x") == of_pod(storage, "y") == {}
    assert of_pod(storage, "x", "y") == dict.fromkeys("abc", (NOTHING_TO_BIND,))


def test_a_volume_that_is_reserved_for_the_claim_is_the_only_one() -> None:
    """Whatever else would fit; a reservation for an earlier claim of the name is none."""
    claim = a_claim(storage_class="local")
    reserved = a_volume(
        "mine", storage_class="local", claim=claim, phase="Bound", size="9Gi", node_labels={HOST: ["a"]}
    )
    storage = a_storage(claims=[claim], volumes=[a_volume(storage_class="local"), reserved], classes=[a_class()])

    assert of_pod(storage, "data") == {"b": (NOTHING_TO_BIND,), "c": (NOTHING_TO_BIND,)}
    assert chosen(storage, "a", "data").bound == {("default", "data"): "mine"}
    earlier = ObjectReference(namespace="default", name="data", uid="earlier")
    stale = a_volume("mine", storage_class="local", claim_ref=earlier)
    assert of_pod(a_storage(claims=[claim], volumes=[stale], classes=[a_class()]), "data").keys() == {"a", "b", "c"}


def test_the_annotation_of_a_class_takes_precedence() -> None:
    """Of a claim and of a volume."""
    claim = a_claim(storage_class="other", annotations={BETA_CLASS: "local"})
    volume = a_volume(storage_class="other", metadata={"annotations": {BETA_CLASS: "local"}})

    assert of_pod(a_storage(claims=[claim], volumes=[volume], classes=[a_class()]), "data") == {}


def test_a_volume_is_provisioned_in_the_topologies_of_the_class() -> None:
    """All labels of one of them must match; a topology without labels matches nothing."""
    topologies: list[Mapping[str, Sequence[str]]] = [{ZONE: ["1"]}, {ZONE: ["2"], HOST: ["c"]}, {}]
    classes = [a_class("fast", provisioner="disk.example", topologies=topologies)]
    storage = a_storage(claims=[a_claim(storage_class="fast")], classes=classes)

    assert of_pod(storage, "data") == {"b": (NOTHING_TO_BIND,)}
    assert chosen(storage, "c", "data") == ChosenVolumes(provisioned=(("default", "data"),))


def test_a_volume_is_provisioned_where_none_fits() -> None:
    """Of two claims one may be bound, and the other provisioned."""
    claims = [a_claim("x", storage_class="fast"), a_claim("y", storage_class="fast", size="2Gi")]
    volumes = [a_volume(storage_class="fast", node_labels={HOST: ["a"]})]
    storage = a_storage(claims=claims, volumes=volumes, classes=[a_class("fast", provisioner="disk.example")])

    assert of_pod(storage, "x", "y") == {}
    assert chosen(storage, "a", "x", "y") == ChosenVolumes(
        bound={("default", "x"): "pv"}, provisioned=(("default", "y"),)
    )
    assert chosen(storage, "b", "x", "y").provisioned == (("default", "x"), ("default", "y"))


def test_a_claim_whose_volume_is_being_provisioned_keeps_its_node() -> None:
    """Existing volumes are not considered any more; a node that has gone leaves none."""
    classes = [a_class("fast", provisioner="disk.example")]
    for node, refused in (("b", {"a", "c"}), ("gone", {"a", "b", "c"})):
        claim = a_claim(storage_class="fast", annotations={SELECTED_NODE: node})
        storage = a_storage(claims=[claim], volumes=[a_volume(storage_class="fast")], classes=classes)

        assert of_pod(storage, "data").keys() == refused
    assert chosen(
        a_storage(claims=[a_claim(storage_class="fast", annotations={SELECTED_NODE: "b"})], classes=classes),
        "b",
        "data",
    ).provisioned


# Scores


def scored(storage: Volumes, *claims: str) -> list[int] | None:
    """The scores of the nodes; None: the plugin is skipped."""
    plugin, state, pod = VolumeBinding(storage), CycleState(), a_pod(volumes=uses(*claims))
    assert refusals(plugin, pod, CLUSTER, state) == {}
    if plugin.pre_score(state, pod, CLUSTER, CLUSTER.rows) == SKIP:
        return None
    return plugin.score(state, pod, CLUSTER, CLUSTER.rows).tolist()


def test_a_node_scores_by_the_part_of_its_volumes_that_is_requested() -> None:
    """The smaller the part the higher; of several storage classes the mean."""
    claims = [a_claim("x", storage_class="local", size="1Gi"), a_claim("y", storage_class="disk", size="3Gi")]
    volumes = [
        a_volume("small", storage_class="local", size="2Gi", node_labels={ZONE: ["1"]}),
        a_volume("large", storage_class="local", size="10Gi", node_labels={ZONE: ["2"]}),
        a_volume("disk", storage_class="disk", size="4Gi"),
    ]
    storage = a_storage(claims=claims, volumes=volumes, classes=[a_class("local"), a_class("disk")])

    assert scored(storage, "y") == [25, 25, 25]
    assert scored(storage, "x", "y") == [38, 58, 58]


def test_nodes_do_not_score_for_pods_without_volumes_that_wait() -> None:
    bound = a_storage(claims=[a_claim(volume="pv")], volumes=[a_volume("pv")])
    created = a_storage(claims=[a_claim(storage_class="fast")], classes=[a_class("fast", provisioner="disk.example")])

    assert scored(bound) is None
    assert scored(bound, "data") is None
    assert scored(created, "data") is None


# What was chosen for other pods


def test_a_reserved_volume_is_not_chosen_for_another_claim() -> None:
    """Until the pod gives it back. The claim itself keeps it, also for other pods."""
    claims = [a_claim("x", storage_class="local"), a_claim("y", storage_class="local")]
    storage = a_storage(claims=claims, volumes=[a_volume(storage_class="local")], classes=[a_class()])
    plugin, state, pod = VolumeBinding(storage), CycleState(), a_pod("first", volumes=uses("x"))
    refusals(plugin, pod, CLUSTER, state)
    other = a_pod("second", volumes=uses("y"))

    assert plugin.reserve(state, pod, "a").is_success
    assert refusals(plugin, other, CLUSTER).keys() == {"a", "b", "c"}
    assert refusals(plugin, a_pod("third", volumes=uses("x")), CLUSTER) == {}
    plugin.unreserve(state, pod, "a")
    assert refusals(plugin, other, CLUSTER) == {}


def test_a_claim_to_be_provisioned_keeps_its_node() -> None:
    """Until the pod gives it back."""
    classes = [a_class("fast", provisioner="disk.example")]
    storage = a_storage(claims=[a_claim(storage_class="fast")], classes=classes)
    plugin, state, pod = VolumeBinding(storage), CycleState(), a_pod("first", volumes=uses("data"))
    refusals(plugin, pod, CLUSTER, state)
    plugin.reserve(state, pod, "b")

    assert refusals(plugin, a_pod("second", volumes=uses("data")), CLUSTER).keys() == {"a", "c"}
    plugin.unreserve(state, pod, "b")
    assert refusals(plugin, a_pod("second", volumes=uses("data")), CLUSTER) == {}


def test_what_the_objects_say_replaces_the_reservation() -> None:
    """A volume that was bound, and whose claim was replaced since, is free for its new one only."""
    claim, other = a_claim("x", storage_class="local"), a_claim("y", storage_class="local")
    volumes = {"pv": a_volume(storage_class="local")}
    storage = Volumes(
        claims={("default", "x"): claim, ("default", "y"): other}, volumes=volumes, classes={"local": a_class()}
    )
    plugin, state, pod = VolumeBinding(storage), CycleState(), a_pod("first", volumes=uses("x"))
    refusals(plugin, pod, CLUSTER, state)
    plugin.reserve(state, pod, "a")
    volumes["pv"] = a_volume(storage_class="local", claim=other)

    assert refusals(plugin, a_pod("second", volumes=uses("y")), CLUSTER) == {}
    assert refusals(plugin, a_pod("third", volumes=uses("x")), CLUSTER).keys() == {"a", "b", "c"}


# All nodes at once are as each node alone

hosts = st.none() | st.lists(st.sampled_from("abc"), max_size=3)
sizes = st.integers(1, 4)
some_volumes = st.lists(st.tuples(sizes, hosts, st.sampled_from(["free", "x", "other"])), max_size=5)
some_claims = st.lists(st.tuples(sizes, st.sampled_from(["local", "fast"])), min_size=1, max_size=3)


@given(volumes=some_volumes, claims=some_claims, zone=st.sampled_from(["1", "2"]))
def test_nodes_together_are_as_each_node_alone(
    volumes: list[tuple[int, list[str] | None, str]], claims: list[tuple[int, str]], zone: str
) -> None:
    """Also what is chosen on them."""
    names = "xyz"[: len(claims)]
    made = [
        a_claim(name, storage_class=kind, size=f"{size}Gi") for name, (size, kind) in zip(names, claims, strict=True)
    ]
    kinds = {"x": claims[0][1]}
    pvs = [
        a_volume(
            f"pv-{index}",
            storage_class=kinds.get(claim, "local"),
            size=f"{size}Gi",
            node_labels=None if where is None else {HOST: where},
            claim={"free": None, "x": made[0], "other": a_claim("other")}[claim],
        )
        for index, (size, where, claim) in enumerate(volumes)
    ]
    classes = [a_class("local"), a_class("fast", provisioner="disk.example", topologies=[{ZONE: [zone]}])]
    storage = a_storage(claims=made, volumes=pvs, classes=classes)
    plugin, state, pod = VolumeBinding(storage), CycleState(), a_pod(volumes=uses(*names))

    together = refusals(plugin, pod, CLUSTER, state)

    for node in "abc":
        expected = bound_on(node, zone, made, pvs)
        assert (node in together) == (expected is None)
        if expected is not None:
            assert plugin.chosen(state, node).bound == expected
        row = CLUSTER.row(node)
        assert row is not None
        alone = ClusterSnapshot([CLUSTER.node(row)])
        assert refusals(plugin, pod, alone).keys() == together.keys() & {node}


def bound_on(
    node: str, zone: str, claims: list[PersistentVolumeClaim], volumes: list[PersistentVolume]
) -> dict[tuple[str, str], str] | None:
    """As kube-scheduler goes through the claims and volumes of one node. None: the node is refused."""

    def gib(text: str) -> int:
        return int(text.removesuffix("Gi"))

    def usable(volume: PersistentVolume) -> bool:
        affinity = volume.spec.node_affinity
        return affinity is None or (
            affinity.required is not None
            and node in affinity.required.node_selector_terms[0].match_expressions[0].values
        )

    taken: dict[tuple[str, str], str] = {}
    for claim in sorted(claims, key=lambda each: gib(each.spec.resources.requests["storage"])):
        best: PersistentVolume | None = None
        for volume in volumes:
            reference = volume.spec.claim_ref
            if (
                volume.metadata.name in taken.values()
                or volume.spec.storage_class_name != claim.spec.storage_class_name
                or (reference is not None and reference.name != claim.metadata.name)
                or gib(volume.spec.capacity["storage"]) < gib(claim.spec.resources.requests["storage"])
            ):
                continue
            if reference is not None:
                best = volume if usable(volume) else None
                break
            smaller = best is None or gib(volume.spec.capacity["storage"]) < gib(best.spec.capacity["storage"])
            if usable(volume) and smaller:
                best = volume
        if best is not None:
            taken["default", claim.metadata.name] = best.metadata.name
        elif claim.spec.storage_class_name == "local" or zone != ("1" if node == "a" else "2"):
            return None
    return taken


@pytest.mark.parametrize("rows", [[0], [0, 1, 2]])
def test_names_of_nodes_in_the_affinity_of_a_volume_are_not_compared(rows: list[int]) -> None:
    """kube-scheduler passes the labels of the node only."""
    name = SelectorRequirement(key="metadata.name", operator="In", values=["other"])
    zone = SelectorRequirement(key=ZONE, operator="In", values=["1"])
    by_name = NodeSelectorTerm(match_fields=[name])
    both = NodeSelectorTerm(match_fields=[name], match_expressions=[zone])

    assert _usable_rows(by_name, rows) == rows
    assert _usable_rows(both, rows) == [0]


def _usable_rows(term: NodeSelectorTerm, rows: list[int]) -> list[int]:
    affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=[term]))
    volume = msgspec.structs.replace(a_volume(), spec=PersistentVolumeSpec(node_affinity=affinity))
    claim = a_claim(volume=volume.metadata.name)
    plugin = VolumeBinding(a_storage(claims=[claim], volumes=[volume]))
    pod, state = a_pod(volumes=uses(claim.metadata.name)), CycleState()
    assert plugin.pre_filter(state, pod, CLUSTER).status.is_success
    found = np.zeros(len(rows), dtype=np.bool_)
    for refusal in plugin.filter(state, pod, CLUSTER, np.array(rows)):
        found |= refusal.nodes
    return [row for row, refused in zip(rows, found.tolist(), strict=True) if not refused]
