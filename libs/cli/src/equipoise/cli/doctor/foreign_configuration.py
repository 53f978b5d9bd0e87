"""Reads configurations of other programs from ConfigMaps, which anyone may have written."""

from typing import TypeVar

import msgspec

from equipoise.contracts.plain_text import plain_text
from equipoise.runtime.configuration.yaml_text import UnreadableYaml, read_yaml

T = TypeVar("T")

LONGEST = 65_536
"""The largest number of characters that is read. Longer texts take seconds; real ones have a few thousand."""

_REASON_LIMIT = 200


def read_foreign(text: str, model: type[T]) -> T:
    """The configuration as this model. Raises UnreadableYaml with a message of one line."""
    if len(text) > LONGEST:
        raise UnreadableYaml(f"it has more than {LONGEST} characters")
    try:
        return msgspec.convert(read_yaml(text), model)
    except (UnreadableYaml, msgspec.ValidationError) as error:
        raise UnreadableYaml(plain_text(str(error), _REASON_LIMIT)) from error
