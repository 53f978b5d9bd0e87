"""Messages and annotations of other versions: of earlier ones as recorded, and of a later one as it may be."""

import json
from typing import Any

import msgspec
import pytest
from contracts.documents import ANNOTATIONS, LATER_FIELD, LATER_WORD, as_of_a_later_version, differences, recorded

from equipoise.annotator.state.crane_hot_values import PlacedTimes
from equipoise.collector.state.previous_messages import PublishedPlacement
from equipoise.contracts.bus.channels import CHANNELS, message_types
from equipoise.contracts.bus.decoding import TolerantDecoder
from equipoise.contracts.bus.subjects import matches
from equipoise.contracts.kubernetes.annotations import LOAD, USAGE, read_node_load, read_workload_usage
from equipoise.contracts.load.pod_priority import qos_of
from equipoise.contracts.messages.eviction import EVICTION_OUTCOME, EvictionOutcome, Outcome
from equipoise.contracts.messages.placement import NODE_PLACEMENT, NodePlacement, PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.utilization import NODE_UTILIZATION, NodeUtilization

READERS_OF_PARTS: dict[str, type[msgspec.Struct]] = {
    "annotator": PlacedTimes,
    "collector": PublishedPlacement,
}
"""Subscribers to placement that read a part of it."""


def json_of(message: msgspec.Struct) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(message))
    return decoded


@pytest.mark.parametrize("version", recorded("messages"))
def test_messages_of_an_earlier_version_are_read(version: str) -> None:
    """All values of all fields, and the type: a field may be added, but not renamed, removed or given another type."""
    for subject, written in json.loads(recorded("messages")[version]()).items():
        (channel,) = [channel for channel in CHANNELS if matches(channel.pattern, subject)]
        read = TolerantDecoder(channel.message).decode(json.dumps(written["message"]))
        assert differences(written["message"], json_of(read)) == []
        assert written["ce-type"] in message_types(channel.pattern)


@pytest.mark.parametrize("version", recorded("annotations"))
def test_annotations_of_an_earlier_version_are_read(version: str) -> None:
    written = json.loads(recorded("annotations")[version]())
    annotations = {key: json.dumps(value) for key, value in written.items()}
    for value, why in (read_node_load(annotations), read_workload_usage(annotations)):
        assert value is not None, why
        assert differences(written[LOAD if "base" in json_of(value) else USAGE], json_of(value)) == []


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.pattern)
def test_what_a_later_version_adds_to_a_message_is_ignored(channel: Any) -> None:
    """Unknown fields in every object; unknown members of enumerations read as the default of their field."""
    message = channel.example[1]
    written = as_of_a_later_version(json_of(message), channel.message)
    assert written[LATER_FIELD]
    read = TolerantDecoder(channel.message).decode(json.dumps(written))
    assert LATER_WORD not in json.dumps(json_of(read))
    assert type(read) is channel.message


@pytest.mark.parametrize("kind", READERS_OF_PARTS.values(), ids=READERS_OF_PARTS)
def test_readers_of_a_part_ignore_what_a_later_version_adds(kind: type[msgspec.Struct]) -> None:
    written = as_of_a_later_version(json_of(NODE_PLACEMENT), NodePlacement)
    read = TolerantDecoder(kind).decode(json.dumps(written))
    assert read == TolerantDecoder(kind).decode(msgspec.json.encode(NODE_PLACEMENT))


def test_an_unknown_qos_class_reads_as_the_default() -> None:
    """The rest of the message is read: the node does not become unknown."""
    written = as_of_a_later_version(json_of(NODE_PLACEMENT), NodePlacement)
    assert written["pods"][0]["qos"] == LATER_WORD
    (pod,) = TolerantDecoder(NodePlacement).decode(json.dumps(written)).pods
    assert (pod.qos, pod.priority_class) == ("BestEffort", "prod")
    assert pod.requests == NODE_PLACEMENT.pods[0].requests


@pytest.mark.parametrize(("kind", "fields"), [(PodDemand, {}), (PlacedPod, {"placed_at": 0})])
def test_a_pod_without_a_qos_class_is_best_effort(kind: type[PodDemand | PlacedPod], fields: dict[str, float]) -> None:
    """As in Kubernetes, where a pod without requests and limits has this class."""
    pod = msgspec.convert({"namespace": "shop", "name": "web", "uid": "1"} | fields, kind)
    assert pod.qos == qos_of("") == "BestEffort"


def test_an_unknown_kind_of_memory_makes_the_message_invalid() -> None:
    """What its amounts of memory mean is not known."""
    written = json_of(NODE_UTILIZATION) | {"memory_kind": LATER_WORD}
    with pytest.raises(msgspec.ValidationError, match="memory_kind"):
        TolerantDecoder(NodeUtilization).decode(json.dumps(written))


def test_an_unknown_outcome_reads_as_failed() -> None:
    """The intent is settled; whether the pod was evicted is not known."""
    written = json_of(EVICTION_OUTCOME) | {"outcome": "deferred"}
    assert TolerantDecoder(EvictionOutcome).decode(json.dumps(written)).outcome is Outcome.FAILED


def test_annotations_of_a_later_version_are_read() -> None:
    """With unknown fields; the times of samples decide who writes next, so they must be readable."""
    (version, read) = list(recorded("annotations").items())[-1]
    written = json.loads(read())
    later = {key: as_of_a_later_version(written[key], kind) for key, kind in ANNOTATIONS.items()}
    assert later[LOAD][LATER_FIELD]
    annotations = {key: json.dumps(value) for key, value in later.items()}
    load, why = read_node_load(annotations)
    assert load is not None, (version, why)
    assert differences(written[LOAD], json_of(load)) == []
    usage, why = read_workload_usage(annotations)
    assert usage is not None, why
    assert differences(written[USAGE], json_of(usage)) == []
