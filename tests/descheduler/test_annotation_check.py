"""Opt-out annotations with an unexpected value are reported."""

import msgspec
from builders import a_workload
from descheduler.cluster import a_workload_object

from equipoise.contracts.kubernetes import objects
from equipoise.descheduler.decisions.evaluation.annotation_check import MAX_NAMED, unexpected_annotations
from equipoise.descheduler.decisions.evaluation.snapshot import WatchedObjects


def watched(value: str, count: int = 1) -> WatchedObjects:
    """Deployments with this value of the annotation."""
    owners: dict[str, objects.WorkloadObject] = {}
    for number in range(count):
        owner = a_workload_object(f"web-{number}", 3)
        metadata = msgspec.structs.replace(owner.metadata, annotations={"equipoise.dev/evict": value})
        owners[f"web-{number}"] = msgspec.structs.replace(owner, metadata=metadata)
    workloads = {a_workload(name): owner for name, owner in owners.items()}
    return WatchedObjects(nodes=[], pods=[], namespaces={}, workloads=workloads)


def test_an_unexpected_value_is_reported() -> None:
    """The author of "true" may have meant to allow evictions, and learns that it protects."""
    assert unexpected_annotations(watched("false")) == ""
    assert unexpected_annotations(watched("true")).endswith('workload shop/web-0 ("true")')


def test_few_objects_are_named() -> None:
    """The others are counted."""
    text = unexpected_annotations(watched("true", count=MAX_NAMED + 2))

    assert text.count("workload shop/") == MAX_NAMED
    assert text.endswith(" and 2 more")
