"""Which nodes and pods a strategy looks at: Kubernetes' label selectors, as part of the configuration."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.kubernetes.labels import satisfies


class Requirement(Section, frozen=True, kw_only=True):
    """One expression over a label."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.operator in ("In", "NotIn")) != bool(self.values):
            raise ValueError(f"{self.operator} of {self.key} must {'' if not self.values else 'not '}name values")


class Selector(Section, frozen=True, kw_only=True):
    """Takes what has all of these labels and satisfies all of these expressions; an empty one takes everything."""

    match_labels: dict[str, str] = msgspec.field(default_factory=dict)
    match_expressions: tuple[Requirement, ...] = ()

    def takes(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            satisfies(labels.get(rule.key), rule.operator, rule.values) for rule in self.match_expressions
        )


class PodSelector(Section, frozen=True, kw_only=True):
    """A group of pods that may be moved."""

    name: str = ""
    selector: Selector
