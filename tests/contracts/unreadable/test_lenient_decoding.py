"""Objects of which a part cannot be decoded: the rest is read, and the object says what is wrong."""

import json
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.contracts.hints.hints_object import HintsObject
from equipoise.contracts.kubernetes import objects
from equipoise.contracts.kubernetes.objects.access import AccessReview
from equipoise.contracts.kubernetes.objects.metadata import Condition, Object
from equipoise.contracts.kubernetes.objects.pod import Affinity, Pod
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.contracts.unreadable.lenient_decoding import read_object

MODULES = [import_module(f"{objects.__name__}.{module.name}") for module in iter_modules(objects.__path__)]
MODELS = {
    model.__name__: model
    for model in [*(value for module in MODULES for value in vars(module).values()), HintsObject]
    if isinstance(model, type) and issubclass(model, Object) and model is not AccessReview
}.values()
FAR_YEARS = ["0000-01-01T00:00:00Z", "10000-01-01T11:59:59Z", "2026-02-30T00:00:00Z", "yesterday", "", 1, None, {}]


def a_pod(**parts: Any) -> dict[str, Any]:
    metadata = {"name": "web-1", "namespace": "shop", "uid": "u", "resourceVersion": "7"}
    pod: dict[str, Any] = {"metadata": metadata, "spec": {"nodeName": "node-a"}, "status": {"phase": "Running"}}
    for part, fields in parts.items():
        pod[part] = {**pod[part], **fields} if isinstance(fields, dict) else fields
    return pod


def read(document: Any, model: type[Object] = Pod) -> Any:
    return read_object(document if isinstance(document, bytes) else json.dumps(document).encode(), model)


@pytest.mark.parametrize("time", FAR_YEARS, ids=repr)
def test_a_time_that_cannot_be_read_costs_the_time_only(time: Any) -> None:
    """The node of the pod is known, so that it is protected. Null is no time."""
    pod = read(a_pod(status={"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": time}]}))
    assert pod.spec.node_name == "node-a"
    assert pod.status.conditions == [Condition(type="Ready", status="True")]
    assert bool(pod.metadata.unreadable) == (time is not None)
    if time is not None:
        assert pod.metadata.unreadable.startswith("status.conditions[0].lastTransitionTime: ")


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (a_pod(spec={"priority": "high"}), "spec.priority: Expected `int`, got `str`"),
        (a_pod(spec={"containers": {"name": "main"}}), "spec.containers: Expected `array | null`, got `object`"),
        (a_pod(metadata={"labels": {"app": 5}}), "metadata.labels[...]: Expected `str`, got `int`"),
        (
            a_pod(status={"conditions": [5, {"type": "Ready"}]}),
            "status.conditions[0]: Expected `object`, got `int` (and",
        ),
        (a_pod(status=[]), "status: Expected `object`, got `array`"),
        (
            a_pod(status={"conditions": [{"type": 1}] * 1_000}),
            "status.conditions[0].type: Expected `str`, got `int` (and",
        ),
    ],
)
def test_what_else_the_object_says_is_read(document: dict[str, Any], reason: str) -> None:
    pod = read(document)
    assert pod.metadata.unreadable.startswith(reason)
    assert (pod.metadata.namespace, pod.metadata.name, pod.metadata.resource_version) == ("shop", "web-1", "7")
    assert pod.spec.node_name == "node-a"


def test_null_and_numbers_are_read_as_the_api_server_accepts_them() -> None:
    """Null is absent, and a number is a quantity."""
    pod = read(
        a_pod(
            metadata={"labels": {"app": None}, "annotations": None, "creationTimestamp": None},
            spec={
                "containers": [{"resources": {"requests": {"cpu": 0.6, "memory": None}}, "ports": None}],
                "tolerations": None,
                "affinity": {"nodeAffinity": None},
            },
        )
    )
    assert pod.metadata.unreadable == ""
    assert pod.metadata.labels == {"app": ""}
    assert pod.spec.containers[0].resources.requests == {"cpu": "0.6", "memory": "0"}
    assert pod.spec.affinity == Affinity()


@pytest.mark.parametrize(
    "number", [b"1e400", b"9" * 5_000, b"1e308", b"-9223372036854775809", b"1e30", b"true", b'"1"']
)
def test_a_number_that_is_none_is_named(number: bytes) -> None:
    pod = read(b'{"metadata": {"name": "web-1", "generation": 1}, "spec": {"priority": ' + number + b"}}")
    assert pod.metadata.name == "web-1"
    assert pod.metadata.unreadable.startswith("spec.priority: ")
    workload = read(b'{"metadata": {"name": "web"}, "spec": {"replicas": ' + number + b"}}", WorkloadObject)
    assert workload.metadata.name == "web"
    assert workload.metadata.unreadable or workload.spec.replicas == 1


def test_what_is_not_read_may_be_nested_as_deeply_as_it_likes() -> None:
    nested = b"[" * 50_000 + b'"}{]["' + b"]" * 50_000
    pod = read(b'{"metadata": {"name": "web-1", "managedFields": ' + nested + b'}, "spec": {"nodeName": "a"}}')
    assert (pod.metadata.unreadable, pod.spec.node_name) == ("", "a")
    pod = read(b'{"metadata": {"name": "web-1", "labels": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}}")
    assert pod.metadata.unreadable.startswith("metadata.labels")


def test_text_that_is_no_unicode_is_read_without_it() -> None:
    pod = read(b'{"metadata": {"name": "web-1", "labels": {"a": "\xff", "b": "\\ud800"}}}')
    assert (pod.metadata.name, pod.metadata.unreadable) == ("web-1", "")
    assert msgspec.json.encode(pod)


@pytest.mark.parametrize("body", [b"", b"[]", b"5", b'"pod"', b"<html>", b'{"metadata":', b"null", b"NaN"])
def test_what_is_no_object_is_an_error(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        read(body)


def test_the_text_of_a_tenant_is_cut() -> None:
    pod = read({"metadata": {"name": "\x1b[2J" + "n" * 10_000, "generation": "x\n" * 10_000}, "spec": {"\x1b": 1}})
    assert pod.metadata.unreadable.isprintable()
    assert len(pod.metadata.unreadable) < 300


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(FAR_YEARS),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=3), values, max_size=3),
    max_leaves=5,
)


def complete(kind: Any, draw: st.DrawFn, depth: int = 0) -> Any:
    """JSON with a value in every field of a model, one of them in ten any value."""
    if draw(st.integers(0, 9)) == 0:
        return draw(VALUES)
    match kind:
        case msgspec.inspect.StructType():
            return {field.encode_name: complete(field.type, draw, depth + 1) for field in kind.fields if depth < 6}
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
            return [complete(kind.item_type, draw, depth + 1)]
        case msgspec.inspect.DictType():
            return {"key": complete(kind.value_type, draw, depth + 1)}
        case msgspec.inspect.UnionType():
            return complete(draw(st.sampled_from(kind.types)), draw, depth)
        case msgspec.inspect.StrType():
            return draw(st.text(max_size=3))
        case msgspec.inspect.IntType():
            return draw(st.integers())
        case msgspec.inspect.BoolType():
            return draw(st.booleans())
        case msgspec.inspect.DateTimeType():
            return "2026-01-01T00:00:00Z"
    return None


@st.composite
def documents(draw: st.DrawFn, model: type[Object]) -> dict[str, Any]:
    document = complete(msgspec.inspect.type_info(model), draw)
    return {**(document if isinstance(document, dict) else {}), "metadata": {"name": "web-1", "namespace": "shop"}}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
@settings(max_examples=30)
@given(data=st.data())
def test_any_object_with_a_name_is_read_by_every_model(model: type[Object], data: st.DataObject) -> None:
    value = read(json.dumps(data.draw(documents(model))).encode(), model)
    assert type(value) is model
    assert (value.metadata.namespace, value.metadata.name) == ("shop", "web-1")
    assert msgspec.json.encode(value)
