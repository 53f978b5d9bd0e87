"""The PromQL that measures a further resource."""

from collections.abc import Sequence

from equipoise.collector.decisions.profiles.query_profile import milliseconds
from equipoise.contracts.configuration.further_resources import WINDOW

OLDEST_STEPS = 20
"""The first sample of a window is searched for in this number of steps, so it is known to a twentieth of the window."""


def usage_promql(promql: str, length: float) -> str:
    """The user's query about a window of `length` seconds."""
    return promql.replace(WINDOW, milliseconds(length))


def newest_promql(selector: str, node_labels: Sequence[str]) -> str:
    """The time of the newest raw sample of each node. A value without it has no age: a rate is answered for a whole
    window after its source ended."""
    return f"max by ({', '.join(node_labels)}) (timestamp({selector}))"


def oldest_promql(selector: str, node_labels: Sequence[str], length: float) -> str:
    """The time of the oldest raw sample of each node in the window: it shows which part of the window has samples,
    whatever the scrape interval is."""
    window, step = milliseconds(length), milliseconds(length / OLDEST_STEPS)
    return f"min by ({', '.join(node_labels)}) (min_over_time(timestamp({selector})[{window}:{step}]))"
