"""The value `off` of settings, for which Helm writes false, because it reads values as YAML 1.1."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args, get_origin

from equipoise.runtime.configuration.errors import types_at

OFF = "off"


def with_off(value: Any, kinds: Sequence[Any]) -> Any:
    """`value` with `off` in place of each false where a setting can be `off` and is no boolean.

    `kinds`: the possible types of the value.
    """
    if value is False:
        return OFF if false_means_off([member for kind in kinds for member in _members(kind)]) else value
    if isinstance(value, dict):
        return {name: with_off(item, _types_at(kinds, name)) for name, item in value.items()}
    if isinstance(value, list):
        return [with_off(item, _types_at(kinds, "")) for item in value]
    return value


def false_means_off(members: Sequence[Any]) -> bool:
    """Whether false means `off` for a setting that may have one of these words and types."""
    return OFF in members and bool not in members and not any(member is False for member in members)


def _types_at(kinds: Sequence[Any], name: str) -> list[Any]:
    return [child for kind in kinds for child in types_at(kind, name)]


def _members(kind: Any) -> Iterator[Any]:
    """The words of literals, and the other types of a union."""
    if get_origin(kind) is Literal or not get_args(kind):
        yield from get_args(kind) or (kind,)
    else:
        for argument in get_args(kind):
            yield from _members(argument)
