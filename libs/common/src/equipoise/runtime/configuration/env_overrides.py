"""Environment variables that override scalar settings: `EQUIPOISE_SCORER__LISTEN` sets `scorer.listen`.

Two underscores separate the levels; case and single underscores are ignored. Variables without two underscores are
ignored, because Kubernetes sets such variables for Services (`EQUIPOISE_SCORER_SERVICE_HOST`).
"""

import math
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from equipoise.runtime.configuration.errors import (
    ConfigurationError,
    decode_value,
    encode_value,
    explain,
    field_types,
    unknown_name,
)

PREFIX = "EQUIPOISE_"


def overridden(
    document: Mapping[str, Any],
    environment: Mapping[str, str],
    sections: Mapping[str, type[Any]],
    others: Collection[str],
) -> dict[str, Any]:
    """The document with the values of variables for `sections`. Variables for `others` are ignored.

    Raises ConfigurationError for a variable that names no scalar, or a value that it cannot have.
    """
    result = dict(document)
    ignored = {_plain(name) for name in others}
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or "__" not in variable:
            continue
        levels = variable.removeprefix(PREFIX).split("__")
        if _plain(levels[0]) in ignored:
            continue
        _override(result, variable, levels, environment[variable], sections)
    return result


def _override(
    document: dict[str, Any], variable: str, levels: list[str], text: str, sections: Mapping[str, type[Any]]
) -> None:
    parent, kind, named = document, None, dict[str, Any](sections)
    path: list[str] = []
    for depth, level in enumerate(levels):
        name = next((name for name in named if _plain(name) == _plain(level)), None)
        if name is None:
            setting = ".".join([*path, level.lower()])
            raise ConfigurationError(f"{variable} ({setting}): {unknown_name(level.lower(), named)}")
        path.append(name)
        kind = named[name]
        named = field_types(kind)
        if depth < len(levels) - 1:
            # A copy, so that the document of the caller does not change.
            child = parent.get(name)
            parent[name] = dict(child) if isinstance(child, dict) else {}
            parent = parent[name]
    parent[path[-1]] = _scalar(text, kind, f"{variable} ({'.'.join(path)})")


def _scalar(text: str, kind: Any, where: str) -> Any:
    try:
        value = msgspec.convert(text, kind, strict=False, dec_hook=decode_value)
    except msgspec.ValidationError as error:
        raise ConfigurationError(explain(str(error), text, kind, where)) from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigurationError(f"{where}: {text!r} is not allowed: expected a finite number")
    return msgspec.to_builtins(value, enc_hook=encode_value)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
