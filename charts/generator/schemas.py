"""What a value of the chart is: its default, its text and its JSON schema; and the schemas of several values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]


@dataclass(frozen=True)
class Value:
    """One value, with its JSON schema."""

    default: Any
    schema: Schema
    text: str


@dataclass(frozen=True)
class Group:
    """A section of values. `rule`: more of its schema, for what concerns several of its values."""

    values: Mapping[str, "Value | Group"]
    text: str
    rule: Schema | None = None


def closed(properties: Mapping[str, Schema], *required: str) -> Schema:
    """An object with these properties only."""
    schema: Schema = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return schema | ({"required": list(required)} if required else {})


def list_of(item: Schema) -> Schema:
    return {"type": "array", "items": item}


BOOLEAN: Schema = {"type": "boolean"}
TEXT: Schema = {"type": "string"}
NAME: Schema = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"}
OPTIONAL_NAME: Schema = {"type": "string", "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"}
DIGEST: Schema = {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
COUNT: Schema = {"type": "integer", "minimum": 0}
QUANTITY: Schema = {
    "anyOf": [
        {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$"},
        {"type": "number", "minimum": 0},
    ]
}
COUNT_OR_SHARE: Schema = {"anyOf": [COUNT, {"type": "string", "pattern": "^[0-9]+%$"}]}
DURATION: Schema = {"type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$"}
ANY_OBJECT: Schema = {"type": "object"}
"""The API server judges it."""

TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
LABELS: Schema = TEXTS | {"patternProperties": {"^(app\\.kubernetes\\.io|helm\\.sh)/": False}}
"""Not those of the chart, which selectors use."""

RESOURCES = closed({kind: {"type": "object", "additionalProperties": QUANTITY} for kind in ("requests", "limits")})
TOLERATIONS = list_of(
    closed(
        {
            "key": TEXT,
            "operator": {"enum": ["Exists", "Equal", "Lt", "Gt"]},
            "value": TEXT,
            "effect": {"enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
            "tolerationSeconds": {"type": "integer"},
        }
    )
)
AFFINITY = closed(dict.fromkeys(("nodeAffinity", "podAffinity", "podAntiAffinity"), ANY_OBJECT))
SPREAD = list_of(
    closed(
        {
            "maxSkew": {"type": "integer", "minimum": 1},
            "topologyKey": TEXT,
            "whenUnsatisfiable": {"enum": ["DoNotSchedule", "ScheduleAnyway"]},
            "minDomains": {"type": "integer", "minimum": 1},
            "nodeAffinityPolicy": {"enum": ["Honor", "Ignore"]},
            "nodeTaintsPolicy": {"enum": ["Honor", "Ignore"]},
            "matchLabelKeys": list_of(TEXT),
        },
        "maxSkew",
        "topologyKey",
        "whenUnsatisfiable",
    )
)
VARIABLES = list_of(closed({"name": TEXT, "value": TEXT, "valueFrom": ANY_OBJECT}, "name"))
NAMED = list_of({"type": "object", "properties": {"name": TEXT}, "required": ["name"]})
MOUNTS = list_of({"type": "object", "properties": {"name": TEXT, "mountPath": TEXT}, "required": ["name", "mountPath"]})
EGRESS = list_of(closed({"to": list_of(ANY_OBJECT), "ports": list_of(ANY_OBJECT)}))


def leaves(group: Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Value]]:
    """Every value with its path."""
    for name, value in group.values.items():
        if isinstance(value, Group):
            yield from leaves(value, (*path, name))
        else:
            yield (*path, name), value


def schema_of(group: Group) -> Schema:
    properties = {
        name: schema_of(value) if isinstance(value, Group) else {**value.schema, "description": value.text}
        for name, value in group.values.items()
    }
    # Helm deletes a default for which null is given, and a template would read it as false or empty.
    return {**closed(properties, *properties), "description": group.text, **(group.rule or {})}
