"""ImageLocality, and the index of images that it reads."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from scheduling.pods import a_pod

from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import ContainerImage, Node, NodeStatus
from equipoise.contracts.kubernetes.objects.pod import Container, ImageSource, Volume
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.image_locality import MIB, ImageLocality, with_tag


def a_node(name: str, **images: int) -> Node:
    """`images`: MiB by name without tag."""
    found = [ContainerImage(names=[f"{image}:latest"], size_bytes=size * MIB) for image, size in images.items()]
    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(images=found))


def a_pod_of(*images: str) -> PodInfo:
    return a_pod(containers=[Container(image=image) for image in images])


def scores(pod: PodInfo, snapshot: ClusterSnapshot) -> list[int]:
    found: list[int] = ImageLocality().score(CycleState(), pod, snapshot, snapshot.rows).tolist()
    return found


def test_an_image_counts_in_proportion_to_the_nodes_that_have_it() -> None:
    """511.5 MiB lie in the middle of 23 MiB and 1,000 MiB: half of the nodes have an image of twice that size."""
    snapshot = ClusterSnapshot([a_node("a", web=1_023), a_node("b")])

    assert scores(a_pod_of("web"), snapshot) == [50, 0]


def test_images_of_volumes_and_of_init_containers_count() -> None:
    """The highest score needs 1,000 MiB for each of them."""
    snapshot = ClusterSnapshot([a_node("a", web=400, setup=400, model=1_200)])
    volume = Volume(image=ImageSource(reference="model"))
    pod = a_pod(containers=[Container(image="web")], init_containers=[Container(image="setup")], volumes=[volume])

    assert scores(pod, snapshot) == [(2_000 - 23) * 100 // (3_000 - 23)]
    assert scores(a_pod_of("web", "setup"), snapshot) == [(800 - 23) * 100 // (2_000 - 23)]


def test_a_name_without_a_tag_is_that_of_the_latest_image() -> None:
    """The colon of a registry's port is no tag."""
    assert with_tag("web") == "web:latest"
    assert with_tag("registry:5000/web") == "registry:5000/web:latest"
    assert with_tag("registry:5000/web:1") == "registry:5000/web:1"
    assert with_tag("web@sha256:0a") == "web@sha256:0a"


images = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 3_000), max_size=3)
changes = st.lists(st.tuples(st.sampled_from(["n1", "n2", "n3"]), images | st.none()), max_size=12)


@given(before=changes, after=changes, pod=st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=4))
def test_the_index_of_changed_nodes_is_that_of_a_new_snapshot(
    before: list[tuple[str, dict[str, int] | None]],
    after: list[tuple[str, dict[str, int] | None]],
    pod: Sequence[str],
) -> None:
    """Nodes that are added, replaced or removed after it was first read; scores are within 0..100."""
    snapshot = ClusterSnapshot()
    apply(before, snapshot)
    scores(a_pod_of(*pod), snapshot)
    apply(after, snapshot)
    nodes = [snapshot.node(row) for row in snapshot.rows.tolist()]

    found = scores(a_pod_of(*pod), snapshot)

    assert found == scores(a_pod_of(*pod), ClusterSnapshot(nodes))
    assert all(0 <= score <= 100 for score in found)


def apply(steps: list[tuple[str, dict[str, int] | None]], snapshot: ClusterSnapshot) -> None:
    for name, sizes in steps:
        if sizes is not None:
            snapshot.put_node(a_node(name, **sizes))
        elif snapshot.row(name) is not None:
            snapshot.remove_node(name)
