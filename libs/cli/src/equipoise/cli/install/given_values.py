"""The values of the chart that a command gives, in files and one by one."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from equipoise.cli.exit_codes import InvalidInput

_SETTING = re.compile(r"(?:^|,)\s*([\w.-]+)=([^,]*)")
"""The name and the text of a value in the syntax of Helm: `a.b=1,c=2`."""

GivenValues = Mapping[str, Any]
"""Values by their dotted names. A list is one value."""


def given_values(files: Sequence[str], settings: Sequence[str]) -> GivenValues:
    """All values. As in Helm, the last value of a name takes precedence, and `settings` take precedence over files.

    Raises InvalidInput for a file that is not YAML.
    """
    values: dict[str, Any] = {}
    for file in files:
        try:
            # As Helm: a file of values may have aliases, which the configuration of Equipoise may not.
            document = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
            raise InvalidInput(f"{file} cannot be read as YAML: {error}") from error
        values |= _leaves(document, "")
    return values | {name: text for setting in settings for name, text in _SETTING.findall(setting)}


def _leaves(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        yield prefix.removesuffix("."), value
        return
    for key, inner in value.items():
        yield from _leaves(inner, f"{prefix}{key}.")
