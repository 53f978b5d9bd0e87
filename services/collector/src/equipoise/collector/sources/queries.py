"""Pieces of PromQL that every profile is written with. One query asks for all nodes (or pods) at once."""

from collections.abc import Mapping


def milliseconds(seconds: float) -> str:
    """A duration as every PromQL dialect reads it, however short: 1.333 s is `1333ms`."""
    return f"{max(1, round(seconds * 1000))}ms"


def selector(metric: str, matchers: Mapping[str, str], *conditions: str) -> str:
    """`metric{name="value"}` with values quoted as PromQL wants them; conditions are written as they are."""
    pairs = [*conditions, *(f'{name}="{_quoted(value)}"' for name, value in sorted(matchers.items()))]
    return f"{metric}{{{','.join(pairs)}}}" if pairs else metric


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
