"""The values of the chart that a command gives, in files and one by one."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from equipoise.cli.exit_codes import InvalidInput

_NAME = re.compile(r"(?:^|,)\s*([\w.-]+)=")
"""The name of a value in the syntax of Helm: `a.b=1,c=2`."""


def given_values(files: Sequence[str], settings: Sequence[str]) -> frozenset[str]:
    """The dotted names of all values. Raises InvalidInput for a file that is no YAML."""
    names = {name for setting in settings for name in _NAME.findall(setting)}
    for file in files:
        try:
            # As Helm: a file of values may have aliases, which the configuration of Equipoise may not.
            document = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
            raise InvalidInput(f"{file} cannot be read as YAML: {error}") from error
        names |= set(_names(document, ""))
    return frozenset(names)


def _names(value: Any, prefix: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield prefix.removesuffix(".")
        return
    for key, inner in value.items():
        yield from _names(inner, f"{prefix}{key}.")
