"""The sections of the configuration that have rules over several settings, for templates/_rules.tpl.

The JSON schema checks each setting alone. What a section's `__post_init__` checks is written again in the templates;
where such a section can be, and the defaults of its settings, are taken from the classes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import inspect as types

from equipoise.cli.service_settings import SERVICE_SETTINGS
from equipoise.contracts.configuration import conflicts
from equipoise.contracts.configuration.settings import MIN_GAP, THRESHOLD_RESOURCES
from equipoise.contracts.load.metric_rule import FIXED_METRICS
from equipoise.descheduler.settings import WATCHABLE_WORKLOADS
from equipoise.runtime.configuration import Shared
from equipoise.runtime.configuration.errors import encode_value

TAG = "name"

CONSTANTS: Mapping[str, Any] = {
    "resources": THRESHOLD_RESOURCES,
    "minGap": MIN_GAP,
    "packingTarget": conflicts.PACKING_TARGET,
    "fixedMetrics": list(FIXED_METRICS),
    "headroom": conflicts.HEADROOM,
    "sparse": conflicts.SPARSE,
    "dynamic": conflicts.DYNAMIC,
    "intentLifetime": conflicts.INTENT_LIFETIME,
    "maxIntentLifetime": conflicts.MAX_INTENT_LIFETIME,
    "filtered": conflicts.FILTERED,
    "windows": conflicts.WINDOWS,
    "workloads": sorted(WATCHABLE_WORKLOADS),
}
"""What the rules compare with."""


def sections_with_rules() -> dict[str, Any]:
    """The sections by the name of their class. Raises ValueError if two that matter have the same name."""
    found = sections_of_document()
    leading = _leading_to_rules(found)
    names = [kind.__name__ for kind in leading]
    if len(set(names)) < len(names):
        raise ValueError(f"two sections with rules have the same name: {sorted(names)}")
    return {
        "constants": _plain(CONSTANTS),
        "document": {name: kind.__name__ for name, kind in _top().items() if kind in leading},
        "sections": {kind.__name__: _section(found[kind], leading) for kind in leading},
    }


def sections_of_document() -> dict[type[Any], types.StructType]:
    """Every section that a configuration can have."""
    found: dict[type[Any], types.StructType] = {}
    for info in types.multi_type_info(_top().values()):
        _collect(info, found)
    return found


def _top() -> dict[str, type[Any]]:
    return {field.encode_name: field.type for field in msgspec.structs.fields(Shared)} | dict(SERVICE_SETTINGS)


def has_rule(kind: type[Any]) -> bool:
    return hasattr(kind, "__post_init__")


def _collect(info: types.Type, found: dict[type[Any], types.StructType]) -> None:
    """All sections that a type refers to, directly or not."""
    for each in _structs(info):
        if each.cls not in found:
            found[each.cls] = each
            for field in each.fields:
                _collect(field.type, found)


def _structs(info: types.Type) -> Iterator[types.StructType]:
    """The sections that a value of this type, or an item of it, can be."""
    match info:
        case types.StructType():
            yield info
        case types.Metadata(type=inner) | types.VarTupleType(item_type=inner) | types.DictType(value_type=inner):
            yield from _structs(inner)
        case types.UnionType(types=members):
            for member in members:
                yield from _structs(member)


def _leading_to_rules(found: Mapping[type[Any], types.StructType]) -> list[type[Any]]:
    """Those that have a rule, or hold a section that does."""
    leading = {kind for kind in found if has_rule(kind)}
    while True:
        more = {
            kind
            for kind, info in found.items()
            if kind not in leading and any(each.cls in leading for f in info.fields for each in _structs(f.type))
        }
        if not more:
            return [kind for kind in found if kind in leading]
        leading |= more


def _section(info: types.StructType, leading: list[type[Any]]) -> dict[str, Any]:
    """`kinds`: the sections that a field may hold, by their tag, or by "" if there is only one."""
    fields = {}
    for field in info.fields:
        below = [each for each in _structs(field.type) if each.cls in leading]
        if below:
            kinds = {"" if each.tag is None else each.tag: each.cls.__name__ for each in below}
            fields[field.encode_name] = {"keys": isinstance(field.type, types.DictType), "kinds": kinds}
    rule = has_rule(info.cls)
    return {"fields": fields, "rule": rule, "defaults": _defaults(info) if rule else {}}


def _defaults(info: types.StructType) -> dict[str, Any]:
    return {
        field.encode_name: _plain(field.default if field.default is not msgspec.NODEFAULT else field.default_factory())
        for field in info.fields
        if not field.required
    }


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=encode_value)
