"""`equipoise consolidate`: its answer, prices, and exit codes."""

import io
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import GIB, NOW
from cli.buses import Bus
from cli.narrow import assert_never_cut
from cli.programs import run
from rich.console import Console

from equipoise.cli.consolidate.prices import consolidation_request, read_prices
from equipoise.cli.consolidate.run import headline, show
from equipoise.cli.exit_codes import InvalidInput
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.prices import INSTANCE_TYPE, NO_CURRENCY, NodePrice, PriceTable
from equipoise.contracts.messages.consolidation import (
    CONSOLIDATION_RESPONSE,
    ConsolidationRequest,
    ConsolidationResponse,
    EmptiableNode,
    NodeBeingEmptied,
    NodeHour,
    RequestsForMore,
    StayingNode,
)
from equipoise.runtime.bus import Endpoint
from equipoise.runtime.bus.nats.nats_bus import open_bus
from equipoise.runtime.process.clock import SystemClock

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")

SAVED = EmptiableNode(node="node-7", instance_type="m7i.large", pods=6, targets=4, below=7.5, price=0.04)


def an_answer(**fields: Any) -> ConsolidationResponse:
    defaults: dict[str, Any] = {
        "nodes": [SAVED, msgspec.structs.replace(SAVED, node="node-8", pods=9)],
        "emptiable": 2,
        "pods": 15,
        "per_hour": 0.08,
        "currency": "EUR",
        "considered": 40,
        "hottest_before": NodeHour(node="node-1", resource="cpu", hour=14, load=0.52),
        "hottest_after": NodeHour(node="node-3", resource="cpu", hour=9, load=0.575),
        "staying": [StayingNode(node="node-9", why="shop/db-0 stays: it uses local storage", bound="pods")],
        "bound": "requests",
        "why": "consolidation.mode is observe",
    }
    return msgspec.structs.replace(CONSOLIDATION_RESPONSE, **(defaults | fields))


def shown(answer: ConsolidationResponse, width: int = 200, *, wide: bool = False) -> str:
    to = io.StringIO()
    show(answer, Console(file=to, width=width), wide=wide)
    return to.getvalue()


def test_the_first_line_is_the_answer() -> None:
    """Nodes, money, pods, and the hottest hour."""
    assert headline(an_answer()) == (
        "2 of 40 nodes could go: 58.40 EUR a month, 15 pods to move, the hottest hour from 52.0% to 57.5%."
    )
    assert headline(an_answer(nodes=[], emptiable=0)) == "No node of 40 could go."
    assert headline(an_answer(per_hour=None, pods=0)).startswith("2 of 40 nodes could go: no pod to move, ")
    assert "58.40 a month (without 1 node without a price)" in headline(an_answer(currency=NO_CURRENCY, unpriced=1))


def test_the_nodes_and_what_keeps_the_others_are_shown() -> None:
    """What bounds it, what is being emptied, and what prevents that more is."""
    text = shown(
        an_answer(
            more=3,
            requests=[RequestsForMore(resource="memory", requested=100 * GIB, needed=92.5 * GIB)],
            above=[StayingNode(node="hot", why="71.0% cpu at 08:00 UTC")],
            emptying=[NodeBeingEmptied(node="node-5", uid="u", since=NOW, why="its pod fits on 1 other node")],
        )
    )

    assert "hottest hour now:   52.0% cpu at 14:00 UTC on node-1" in text
    assert "hottest hour then:  57.5% cpu at 09:00 UTC on node-3" in text
    assert "most others stay because of requests: no other node has as much free as their pods request" in text
    assert "for 3 nodes more, pods may request about 92.5 of their 100.0 GiB of memory (-7.5%)" in text
    assert "above a threshold without any change: hot, 71.0% cpu at 08:00 UTC" in text
    assert "being emptied since 2027-01-15 08:00:00 UTC: node-5, its pod fits on 1 other node" in text
    assert "no further node is emptied now: consolidation.mode is observe" in text
    row = next(line for line in text.splitlines() if " node-7 " in line)
    assert row.split() == ["1", "node-7", "m7i.large", "6", "4", "7.5", "points", "29.20", "EUR"]
    assert "shop/db-0 stays: it uses local storage" in text


def test_errors_that_are_not_recorded_yet_are_named() -> None:
    """Otherwise, nobody would see why nodes with little load stay."""
    assert "the errors of the daily profiles of 14 workloads are not recorded yet" in shown(an_answer(unrecorded=14))
    assert "not recorded yet" not in shown(an_answer(unrecorded=0))


def test_without_prices_the_saving_is_unknown_and_not_zero() -> None:
    text = shown(an_answer(per_hour=None, currency="", nodes=[msgspec.structs.replace(SAVED, price=None)]))

    assert "saving: unknown without prices (--prices FILE)" in text
    assert "0.00" not in text


def test_many_rows_are_shown_with_wide_only() -> None:
    nodes = [msgspec.structs.replace(SAVED, node=f"node-{number}") for number in range(30)]
    answer = an_answer(nodes=nodes, emptiable=30)

    assert "Nodes that could go, in this order (first 20 of 30, -o wide has more)" in shown(answer)
    assert "node-29" not in shown(answer)
    assert "node-29" in shown(answer, wide=True)


def test_no_cell_is_cut_on_a_narrow_terminal() -> None:
    """Eighty columns."""
    long = StayingNode(node="ip-10-0-12-34.eu-central-1.compute.internal", why="x " * 60, bound="constraints")
    answer = an_answer(staying=[long])

    assert_never_cut(show, answer)


# prices


def a_file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    return file


def test_prices_are_read_by_instance_type_and_labels(tmp_path: Path) -> None:
    """The first entry that matches counts; other nodes have no price."""
    table = read_prices(
        a_file(
            tmp_path,
            "currency: EUR\nnodes:\n- {instanceType: m7i.large, labels: {spot: 'true'}, perHour: 0.05}\n"
            "- {instanceType: m7i.large, perHour: 0.12}\n",
        )
    )

    assert table.price_of({INSTANCE_TYPE: "m7i.large", "spot": "true"}) == 0.05
    assert table.price_of({INSTANCE_TYPE: "m7i.large"}) == 0.12
    assert table.price_of({INSTANCE_TYPE: "other"}) is None
    request = consolidation_request(table)
    assert request.currency == "EUR"
    assert [price.labels for price in request.prices or ()] == [
        {"spot": "true", INSTANCE_TYPE: "m7i.large"},
        {INSTANCE_TYPE: "m7i.large"},
    ]
    assert consolidation_request(None) == ConsolidationRequest()


def test_prices_of_opencost_are_means_of_each_instance_type(tmp_path: Path) -> None:
    """Its assets have no currency; other assets than nodes are left out."""
    nodes = {
        "a": {"type": "Node", "nodeType": "m7i.large", "totalCost": 2.4, "minutes": 1440, "providerID": "x"},
        "b": {"type": "Node", "nodeType": "m7i.large", "totalCost": 4.8, "minutes": 1440},
        "c": {"type": "Disk", "totalCost": 9.0, "minutes": 1440},
    }
    for data in (nodes, [nodes]):
        table = read_prices(a_file(tmp_path, json.dumps({"code": 200, "data": data})))
        assert table == PriceTable(
            currency=NO_CURRENCY, nodes=(NodePrice(instance_type="m7i.large", per_hour=pytest.approx(0.15)),)
        )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nodes: [{instanceType: a, perHour: 1}]", "prices need a currency"),
        (
            "currency: EUR\nnodes: [{instanceType: a, perHour: 1, currency: USD}]",
            "is in EUR, and an entry in USD",
        ),
        ("currency: EUR\nnodes: [{perHour: 1}]", "a price needs an instanceType or labels"),
        ("currency: EUR\nnodes: [{instanceType: a, perHour: -1}]", ">= 0"),
        ("currency: EUR\nnodes: [{instanceType: a, perHour: .nan}]", "nodes[0].perHour"),
        ("currency: EUR\nnodes: [{instanceType: a, perHours: 1}]", "perHours"),
        ("currency: euro\nnodes: []", "currency"),
        ("[", "line 1"),
        ("", "null"),
        ('{"data": {}}', "no node with nodeType"),
        ('{"data": {"a": {"type": "Node", "nodeType": "b", "totalCost": -5, "minutes": 60}}}', ">= 0"),
        ('{"data": 3}', "object"),
    ],
)
def test_prices_that_cannot_be_right_are_refused_with_the_reason(tmp_path: Path, text: str, why: str) -> None:
    """With an example of a right one."""
    with pytest.raises(InvalidInput) as raised:
        read_prices(a_file(tmp_path, text))

    assert why in raised.value.message
    assert raised.value.message.endswith("Example: {currency: EUR, nodes: [{instanceType: m7i.large, perHour: 0.12}]}")


# the command


async def test_the_user_tap_gets_the_answer_of_the_descheduler(bus: Bus, tmp_path: Path) -> None:
    """As text and as JSON with the saving of a month; invalid prices end the command before it asks."""
    asked: list[ConsolidationRequest] = []

    async def respond(request: ConsolidationRequest) -> ConsolidationResponse:
        asked.append(request)
        return an_answer()

    clock = SystemClock()
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(open_bus(bus.settings("descheduler"), "descheduler", clock, None))
        endpoint = Endpoint(
            subject=subjects.PLAN_CONSOLIDATION, request_type=ConsolidationRequest, handler=respond, share=1.0
        )
        await service.serve("descheduler", [endpoint])
        prices = a_file(tmp_path, "currency: EUR\nnodes: [{instanceType: m7i.large, perHour: 0.04}]")
        code, text = await bus.run("consolidate", "--prices", str(prices))
        json_code, encoded = await bus.run("consolidate", "-o", "json")

    assert code == 0, text
    assert "2 of 40 nodes could go: 58.40 EUR a month" in text
    assert "\x1b" not in text
    assert json_code == 0
    answer = json.loads(encoded)
    assert answer["per_month"] == pytest.approx(58.4)
    assert answer["cluster"]["state"] == "unknown"
    assert [request.currency for request in asked] == ["EUR", ""]


async def test_without_a_leader_the_error_states_what_to_check(bus: Bus) -> None:
    code, output = await bus.run("consolidate")

    assert code == 1
    assert output.startswith(f"Error: no descheduler leads at {bus.url}")


async def test_invalid_prices_are_invalid_input(tmp_path: Path) -> None:
    code, output = await run("consolidate", "--prices", str(a_file(tmp_path, "nodes: 3")))

    assert code == 2
    assert "prices.yaml" in output
