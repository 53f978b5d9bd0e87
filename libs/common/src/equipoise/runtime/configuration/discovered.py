"""The metrics source that the installation found. It is used if the configuration names no source."""

from collections.abc import Mapping
from typing import Any

DISCOVERED = "EQUIPOISE_DISCOVERED"
"""The environment variable with the path of `equipoise.yaml` from the ConfigMap `equipoise-discovered`."""

NAMED = (("source",), ("prometheus", "url"))
"""Settings of the section `collector` by which a configuration names its own source."""


def names_source(document: Mapping[str, Any]) -> bool:
    """Whether the configuration names its source of metrics."""
    return any(_at(document, ("collector", *path)) is not None for path in NAMED)


def beneath(document: Mapping[str, Any], discovered: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration, with the discovered settings as defaults if it names no source: two sources are never
    mixed."""
    return dict(document) if names_source(document) else _merged(discovered, document)


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _merged(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(lower)
    for name, value in upper.items():
        default = result.get(name)
        if isinstance(default, Mapping) and value is None:
            continue  # an empty section
        result[name] = _merged(default, value) if isinstance(default, Mapping) and isinstance(value, Mapping) else value
    return result
