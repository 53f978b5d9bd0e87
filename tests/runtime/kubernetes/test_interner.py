"""Equal parts are kept once, and nothing else changes."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.kubernetes.objects.cluster import ConfigMap
from equipoise.contracts.kubernetes.objects.metadata import Condition, ObjectMeta
from equipoise.contracts.kubernetes.objects.pod import Container, ContainerPort, Pod, PodSpec, PodStatus, Toleration
from equipoise.runtime.kubernetes.reflector import FEW_PARTS, Interner

TEXTS = st.sampled_from(["", "a", "b"])


def a_pod(name: str, app: str, key: str) -> Pod:
    """Decoded again each time, as the API server's bytes are."""
    pod = Pod(
        metadata=ObjectMeta(name=name, namespace="shop", labels={"app": app} if app else {}),
        spec=PodSpec(
            node_name="node-a",
            containers=[Container(ports=[ContainerPort(host_port=80)])],
            tolerations=[Toleration(key=key)] if key else [],
        ),
        status=PodStatus(phase="Running"),
    )
    return msgspec.json.decode(msgspec.json.encode(pod), type=Pod)


@given(pods=st.lists(st.builds(a_pod, TEXTS, TEXTS, TEXTS), max_size=6))
def test_what_is_shared_is_equal(pods: list[Pod]) -> None:
    """Every object reads as before."""
    sharing = Interner()

    assert pods == [sharing.intern(pod) for pod in pods]


@given(pod=st.builds(a_pod, TEXTS, TEXTS, TEXTS), before=st.builds(a_pod, TEXTS, TEXTS, TEXTS))
def test_an_earlier_version_changes_nothing(pod: Pod, before: Pod) -> None:
    sharing = Interner()

    assert pod == sharing.intern(pod, sharing.intern(before))


def test_parts_of_the_earlier_version_are_kept() -> None:
    sharing = Interner()
    before = sharing.intern(a_pod("1", "web", "a"))
    same, relabelled = (sharing.intern(a_pod("1", app, "a"), before) for app in ("web", "db"))

    assert same.spec is before.spec is relabelled.spec
    assert same.metadata.labels is before.metadata.labels
    assert {"app": "db"} == relabelled.metadata.labels


def test_equal_parts_are_one() -> None:
    """Two pods of a workload share labels, containers and texts; a third with another toleration keeps its own."""
    sharing = Interner()
    first, second, third = (
        sharing.intern(a_pod(name, "web", key)) for name, key in (("1", "a"), ("2", "a"), ("3", "b"))
    )

    assert first.metadata.labels is second.metadata.labels
    assert first.spec.containers is second.spec.containers is third.spec.containers
    assert first.spec.node_name is second.spec.node_name
    assert first.spec.volumes is second.spec.volumes
    assert first.spec.tolerations != third.spec.tolerations


def test_parts_of_deleted_objects_are_forgotten() -> None:
    """Those that an object still has are shared with later objects, however many others there were."""
    sharing = Interner()
    kept = sharing.intern(a_config_map("kept"))
    for number in range(10_000):
        sharing.intern(a_config_map(str(number)))

    assert len(sharing._parts) <= FEW_PARTS
    assert sharing.intern(a_config_map("kept")).metadata.labels is kept.metadata.labels


def a_config_map(label: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(labels={"n": label}))


def test_the_texts_of_conditions_are_shared() -> None:
    """They are most of a running pod's status."""
    status = PodStatus(phase="Running", conditions=[Condition(type="PodScheduled", status="True", reason="Placed")])
    encoded = msgspec.json.encode(Pod(status=status))
    first, second = (Interner().intern(msgspec.json.decode(encoded, type=Pod)).status for _ in range(2))

    assert first == second == status
    assert first.phase is second.phase
    [one], [other] = first.conditions, second.conditions
    assert (one.type is other.type, one.status is other.status, one.reason is other.reason) == (True, True, True)
