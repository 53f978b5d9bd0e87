"""What nodes cost: a table of prices per hour, by instance type or other labels."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from equipoise.contracts.configuration.settings import Section

INSTANCE_TYPE = "node.kubernetes.io/instance-type"

HOURS_PER_MONTH = 730.0
"""365 days of 24 hours, divided by 12."""

Currency = Annotated[str, Meta(pattern="^[A-Z]{3}$")]
"""A code of ISO 4217, such as EUR."""

NO_CURRENCY = "XXX"
"""The code of ISO 4217 for amounts whose currency is not known."""

Price = Annotated[float, Meta(ge=0, le=1e6)]


class NodePrice(Section, frozen=True, kw_only=True):
    """The price of the nodes that have these labels."""

    per_hour: Price
    instance_type: str = ""
    """The value of the label `node.kubernetes.io/instance-type`."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    currency: Currency | None = None
    """The currency of the table, which all prices must have. It need not be given again."""

    def __post_init__(self) -> None:
        if not self.instance_type and not self.labels:
            raise ValueError("a price needs an instanceType or labels (example: instanceType: m7i.large)")

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels has this price."""
        if self.instance_type and labels.get(INSTANCE_TYPE) != self.instance_type:
            return False
        return all(labels.get(key) == value for key, value in self.labels.items())


class PriceTable(Section, frozen=True, kw_only=True):
    """Prices of nodes, all in one currency. Nodes that match none have an unknown price."""

    currency: Currency | None = None
    nodes: tuple[NodePrice, ...] = ()
    """The first entry that matches a node is its price."""

    def __post_init__(self) -> None:
        if self.nodes and self.currency is None:
            raise ValueError("prices need a currency (example: currency: EUR)")
        others = {price.currency for price in self.nodes if price.currency} - {self.currency}
        if others:
            raise ValueError(
                f"all prices must be in one currency: the table is in {self.currency}, and an entry in {min(others)}"
            )

    def price_of(self, labels: Mapping[str, str]) -> float | None:
        """The price per hour of a node with these labels; None if it is unknown."""
        return next((price.per_hour for price in self.nodes if price.matches(labels)), None)
