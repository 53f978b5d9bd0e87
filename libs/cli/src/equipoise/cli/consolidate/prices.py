"""The prices of a file: a table in YAML, or the nodes of OpenCost's API (`/assets`)."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from equipoise.cli.exit_codes import InvalidInput
from equipoise.contracts.configuration.prices import INSTANCE_TYPE, NO_CURRENCY, NodePrice, PriceTable
from equipoise.contracts.messages.consolidation import ConsolidationRequest, PricedNodes
from equipoise.contracts.plain_text import plain_text
from equipoise.runtime.configuration.yaml_text import UnreadableYaml, read_yaml

EXAMPLE = "{currency: EUR, nodes: [{instanceType: m7i.large, perHour: 0.12}]}"

_LONGEST = 200
_MINUTES = 60.0


class _Asset(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An asset of OpenCost, with the fields that are read."""

    type: str = ""
    node_type: str = ""
    total_cost: float = 0.0
    minutes: float = 0.0


def read_prices(path: Path) -> PriceTable:
    """The table. Raises InvalidInput with what is wrong, and an example."""
    try:
        document = read_yaml(path.read_text(encoding="utf-8"))
        if isinstance(document, dict) and "data" in document:
            return PriceTable(currency=NO_CURRENCY, nodes=tuple(_prices_of_assets(document["data"])))
        return msgspec.convert(document, PriceTable)
    except (UnreadableYaml, ValueError) as error:  # a ValidationError of msgspec is a ValueError
        raise InvalidInput(f"{path}: {plain_text(str(error), _LONGEST)}. Example: {EXAMPLE}") from None


def consolidation_request(prices: PriceTable | None) -> ConsolidationRequest:
    """The request with these prices; None: with those of the descheduler."""
    if prices is None:
        return ConsolidationRequest()
    return ConsolidationRequest(
        prices=[PricedNodes(labels=_labels(price), per_hour=price.per_hour) for price in prices.nodes],
        currency=prices.currency or "",
    )


def _labels(price: NodePrice) -> dict[str, str]:
    return {**price.labels, **({INSTANCE_TYPE: price.instance_type} if price.instance_type else {})}


def _prices_of_assets(data: Any) -> Iterator[NodePrice]:
    """What the nodes of each instance type cost per hour on average. `data`: assets by key, or a list of such maps."""
    cost, minutes = defaultdict[str, float](float), defaultdict[str, float](float)
    for assets in data if isinstance(data, list) else [data]:
        for each in (msgspec.convert(assets, dict[str, _Asset] | None) or {}).values():
            if each.type == "Node" and each.node_type and each.minutes > 0:
                cost[each.node_type] += each.total_cost
                minutes[each.node_type] += each.minutes
    if not minutes:
        raise ValueError("no node with nodeType, totalCost and minutes in data (is it the response to /assets?)")
    for name, total in minutes.items():
        yield msgspec.convert({"instanceType": name, "perHour": _MINUTES * cost[name] / total}, NodePrice)
