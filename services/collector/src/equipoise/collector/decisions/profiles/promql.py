"""Parts of PromQL queries. One query is about all nodes, or all pods."""

from collections.abc import Mapping


def milliseconds(seconds: float) -> str:
    """A duration that every PromQL dialect can parse, however short: 1.333 s is `1333ms`."""
    return f"{max(1, round(seconds * 1000))}ms"


def selector(metric: str, matchers: Mapping[str, str], *conditions: str) -> str:
    """`metric{name="value"}` with quoted values; the conditions are inserted unchanged."""
    pairs = [*conditions, *(f'{name}="{_quoted(value)}"' for name, value in sorted(matchers.items()))]
    return f"{metric}{{{','.join(pairs)}}}" if pairs else metric


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
