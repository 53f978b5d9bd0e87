"""The value `config`: the configuration without the settings that other values determine."""

import re
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from equipoise.cli.service_settings import SERVICE_SETTINGS
from equipoise.contracts.bus.subjects import ALL_SERVICES
from equipoise.runtime.configuration import document_schema

OWNED = (
    "apiVersion",
    "kind",
    "nats",
    "kubernetes",
    "placement",
    "annotator.crane",
    "annotator.deletionCosts",
    "annotator.hints.admission",
    *(f"annotator.hints.webhook.{name}" for name in ("listen", "tls", "caFile", "servicePort")),
    "binder.evict",
    "moves.level",
    "scorer.extender.tls",
    "scorer.listen",
    "reclaimer.enabled",
    "surge.mode",
    "agent.cgroupRoot",
    "agent.evict",
    *(f"{program}.health" for program in (*ALL_SERVICES, "agent")),
)
"""Settings that templates/_definitions.tpl writes. A value for them in `config` is refused."""


def config_default(root: Path) -> dict[str, Any]:
    """What k8s/base/equipoise.yaml sets."""
    document: dict[str, Any] = yaml.safe_load((root / "k8s" / "base" / "equipoise.yaml").read_text())
    for path in OWNED:
        _remove(document, path.split("."))
    return document


def _remove(document: dict[str, Any], path: list[str]) -> None:
    """With the sections that become empty."""
    name, *rest = path
    if name in document and rest:
        _remove(document[name], rest)
    if name in document and (not rest or not document[name]):
        del document[name]


def config_schema() -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of `config`, and its definitions. Raises KeyError if a setting of OWNED does not exist."""
    schema = deepcopy(document_schema(SERVICE_SETTINGS))
    definitions: dict[str, Any] = schema.pop("$defs")
    for path in OWNED:
        *sections, name = path.split(".")
        section = schema
        for each in sections:
            section = definitions[_definition(section["properties"][each])]
        del section["properties"][name]
    properties = schema["properties"]
    names = _reachable(properties, definitions)
    config = {"type": "object", "properties": properties, "additionalProperties": False}
    return config, {name: definition for name, definition in definitions.items() if name in names}


def _definition(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"]).removeprefix("#/$defs/")


def _reachable(node: Any, definitions: Mapping[str, Any]) -> set[str]:
    """The definitions to which a schema refers, directly or not."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        for name in set(re.findall(r"'#/\$defs/([^']+)'", str(waiting.pop()))) - found:
            found.add(name)
            waiting.append(definitions[name])
    return found
