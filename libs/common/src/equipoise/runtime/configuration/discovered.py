"""The metrics source that the installation found. It is used if the configuration names no source."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from equipoise.contracts.configuration.redaction import is_location, is_private
from equipoise.runtime.process.bounded_files import SECRET_LIMIT, read_bounded_text

DISCOVERED = "EQUIPOISE_DISCOVERED"
"""The environment variable with the path of `equipoise.yaml` from the ConfigMap `equipoise-discovered`."""

NAMED = (("source",), ("prometheus", "url"))
"""Settings of the section `collector` by which a configuration names its own source."""


REASON = "reason"
"""The key of the ConfigMap with the reason, which is a file beside the other one."""


def stored_reason(environment: Mapping[str, str]) -> str:
    """Why the installation chose its source of metrics, or found none; empty if nothing is stored."""
    file = environment.get(DISCOVERED)
    try:
        return read_bounded_text(Path(file).with_name(REASON), SECRET_LIMIT) if file else ""
    except (OSError, UnicodeDecodeError):
        return ""


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
    """`upper` over `lower`. A section with the URL of `lower` gets no credentials of `upper`: the administrator has not
    named this URL."""
    result, foreign = dict(lower), any(is_location(name) for name in lower.keys() - upper.keys())
    for name, value in upper.items():
        if foreign and is_private(name):
            continue
        default = result.get(name)
        if isinstance(default, Mapping) and value is None:
            continue  # an empty section
        result[name] = _merged(default, value) if isinstance(default, Mapping) and isinstance(value, Mapping) else value
    return result
