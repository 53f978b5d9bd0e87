"""The numbers that a message may contain: finite, and no more than a machine, a cluster or a calendar has.

Decoding checks them, in the one place where all messages are received. A message with any other number is skipped and
named (`runtime.bus.codec`): one amount of 1e39 would become infinite in an array of 32-bit floats, and affect the
results for all nodes. JSON has neither NaN nor infinity, so a bound excludes them too. `tests/contracts/test_bounds.py`
finds fields without bounds.
"""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta

MAX_CORES = 1_000_000.0
MAX_BYTES = 2.0**53

Cores = Annotated[float, Meta(ge=-MAX_CORES, le=MAX_CORES)]
Bytes = Annotated[float, Meta(ge=-MAX_BYTES, le=MAX_BYTES)]
"""A number of bytes, or a difference, which may be negative."""

Amount = Annotated[float, Meta(ge=-MAX_BYTES, le=MAX_BYTES)]
"""Cores or bytes. The key of the mapping that contains the amount states which: see `implausible_amount`."""

LATEST = 253_402_300_799.0
"""The end of the year 9999."""

MAX_AHEAD = 180.0
"""Seconds by which a measurement may be in the future, or later than its query."""

CLOCK_TOLERANCE = 15.0
"""Seconds by which the time in an annotation or in placement hints may be in the future: clocks of Prometheus and of
replicas differ. A later time is forged or wrong, and would take precedence over all correct times that follow."""

EPOCH_AHEAD = 10 * 365 * 86_400.0
"""Seconds by which an epoch, a time in milliseconds, may be in the future. No clock is wrong by so much. The limit
moves with the time, so that a publisher can always choose a higher epoch than one that was forged."""

Time = Annotated[float, Meta(ge=0.0, le=LATEST)]
"""Unix seconds."""

Seconds = Annotated[float, Meta(ge=-LATEST, le=LATEST)]
"""A duration, or a difference of clocks."""

Points = Annotated[float, Meta(ge=-1e9, le=1e9)]
"""A score, a share, an average, or a difference of them."""

Count = Annotated[int, Meta(ge=0, le=2**53)]
Number = Annotated[int, Meta(ge=-(2**53), le=2**53)]
"""Priorities and weights may be negative."""


def bounded(resource: str, amount: float) -> float:
    """A sum of amounts of "cpu" or "memory", limited to what a message may contain, because a sum of plausible amounts
    can be implausible.

    NaN is returned unchanged. Every publisher of a sum of requests uses this function, or `bounded_resources`.
    """
    most = MAX_CORES if resource == "cpu" else MAX_BYTES
    return max(min(amount, most), -most)


def implausible_amount(resource: str, amounts: Iterable[float | None]) -> str:
    """Describes the first of these amounts of "cpu" or "memory" that is more than any machine has. Empty if there is
    none."""
    most = MAX_CORES if resource == "cpu" else MAX_BYTES
    found = next((amount for amount in amounts if amount is not None and abs(amount) > most), None)
    return "" if found is None else f"{found:g} of {resource}: no machine has more than {most:g}"


DEEPEST = 16
LONGEST_TEXT = 65_536
"""The maximum number of levels of a document of settings in a message, and of characters of a text in it."""


def implausible_document(document: object) -> str:
    """Describes a part of a document that cannot belong to settings. Empty if there is none. Receivers do not know the
    type of the settings, so only sizes are checked."""
    remaining = [(document, 0)]
    while remaining:
        value, depth = remaining.pop()
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            return f"a text of {len(value)} characters"
        if isinstance(value, int | float) and abs(value) > MAX_BYTES:
            return "a number that no setting has"
        if isinstance(value, dict | list):
            if depth == DEEPEST:
                return f"more than {DEEPEST} levels"
            parts = [*value, *value.values()] if isinstance(value, dict) else value
            remaining += ((part, depth + 1) for part in parts)
    return ""
