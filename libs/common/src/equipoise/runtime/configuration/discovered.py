"""The source of metrics that was found at the installation: used if the configuration names none of its own."""

from collections.abc import Mapping
from typing import Any

DISCOVERED = "EQUIPOISE_DISCOVERED"
"""The variable with the file: `equipoise.yaml` of the ConfigMap `equipoise-discovered`."""

NAMED = (("source",), ("prometheus", "url"))
"""Settings of the section `collector` by which a configuration names its own source."""


def names_source(document: Mapping[str, Any]) -> bool:
    """Whether the configuration names its source of metrics."""
    return any(_at(document, ("collector", *path)) is not None for path in NAMED)


def beneath(document: Mapping[str, Any], discovered: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration above what was discovered: one source, never a mixture of two."""
    return dict(document) if names_source(document) else _merged(discovered, document)


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _merged(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(lower)
    for name, value in upper.items():
        below = result.get(name)
        if isinstance(below, Mapping) and value is None:
            continue  # an empty section
        result[name] = _merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return result
