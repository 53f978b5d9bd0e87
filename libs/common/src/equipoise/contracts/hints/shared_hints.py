"""Hints that several workloads of a namespace have. A message holds each of them once."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from equipoise.contracts.messages.placement import WorkloadHint


class DividedHints(msgspec.Struct, frozen=True, kw_only=True):
    """The hints of a namespace: those of one workload alone, and those that several workloads have."""

    hints: dict[str, WorkloadHint]
    shared: tuple[WorkloadHint, ...]
    workloads: dict[str, int]
    """The index in `shared` of the hint of each workload that has none of its own, by key."""


def divided_hints(hints: Mapping[str, WorkloadHint]) -> DividedHints:
    """The same hints, in the same order."""
    numbers: dict[WorkloadHint, int] = {}
    number_of = {key: numbers.setdefault(hint, len(numbers)) for key, hint in hints.items()}
    users = Counter(number_of.values())
    shared = {number: hint for hint, number in numbers.items() if users[number] > 1}
    indexes = {number: index for index, number in enumerate(shared)}
    return DividedHints(
        hints={key: hints[key] for key, number in number_of.items() if number not in shared},
        shared=tuple(shared.values()),
        workloads={key: indexes[number] for key, number in number_of.items() if number in shared},
    )
