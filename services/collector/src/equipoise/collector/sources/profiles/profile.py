"""What a profile is: for each resource of nodes and of pods, how Prometheus is asked for its usage."""

from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

from equipoise.collector.decisions.query import Ask, Subject

MemoryKind = Literal["workingSet", "anonymous"]
"""As `load.memory` names it."""


class Usage(Protocol):
    """One resource of nodes, or of pods."""

    def query(self, ask: Ask, matchers: Mapping[str, str]) -> str | None:
        """PromQL for a question, about series that have the labels `matchers`; None: it has no answer here.

        Answers to different questions about one series must have the same labels.
        """
        ...


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Which metrics hold the usage, as one way to scrape them labels them. What is absent cannot be measured."""

    cpu: Mapping[Subject, Usage]
    memory: Mapping[MemoryKind, Mapping[Subject, Usage]]

    node_info: str = ""
    """Metric with the labels `node` and `internal_ip`, for series that name their node by its address only."""

    names_only: bool = False
    """Are series told apart by the names of node and pod alone, as other labels differ between questions?"""
