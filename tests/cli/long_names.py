"""Values whose names are as long as Kubernetes permits, or as clouds make them."""

from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

import msgspec

from equipoise.contracts.kubernetes.workload import Workload

LENGTHS = {
    "node": 41, "target": 41, "current_node": 41, "pod": 63, "namespace": 63, "replacement": 63,
}  # fmt: skip
"""Fields with names of objects, and the length that these get."""

T = TypeVar("T")


def with_long_names(value: T, field: str = "") -> T:
    """The same value, in which each name of an object is long. Equal names stay equal."""
    changed: Any = value
    if isinstance(value, msgspec.Struct):
        words = {name for name, hint in get_type_hints(type(value)).items() if "Literal" in str(hint)}
        names = [name for name in value.__struct_fields__ if name not in words]
        fields = {name: with_long_names(getattr(value, name), name) for name in names}
        if isinstance(value, Workload):
            fields["name"] = value.name.ljust(LENGTHS["pod"], "x")
        changed = msgspec.structs.replace(value, **fields)
    elif isinstance(value, Mapping):
        changed = {key: with_long_names(each, field) for key, each in value.items()}
    elif isinstance(value, list | tuple):
        changed = type(value)(with_long_names(each, field) for each in value)
    elif isinstance(value, str) and value and field in LENGTHS:
        changed = value.ljust(LENGTHS[field], "x")
    return changed  # type: ignore[no-any-return]
