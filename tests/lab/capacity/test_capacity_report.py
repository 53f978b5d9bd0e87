"""The answers about batch work and fewer nodes in tables, JSON and the page."""

import json
from pathlib import Path

import msgspec
from lab.report.test_report import WIDTH, some_figures
from lab.traces import a_trace

from equipoise.lab.capacity.answers import CapacityAnswers
from equipoise.lab.capacity.batch_work import BatchRequest, BatchSimulation
from equipoise.lab.capacity.consolidated_days import by_margin, consolidated_days
from equipoise.lab.capacity.fewer_nodes import NodesNeeded, Size
from equipoise.lab.replay_plan import Settings
from equipoise.lab.report import write_report
from equipoise.lab.report.capacity_charts import capacity_charts
from equipoise.lab.report.capacity_tables import capacity_rows
from equipoise.lab.report.table import encoded


def needed(number: int | None = 9, next_smaller: int | None = 8) -> NodesNeeded:
    return NodesNeeded(
        scenario="churn",
        policy="profile",
        placement="extender",
        descheduler=True,
        nodes=10,
        needed=number,
        next_smaller=next_smaller,
        limited_by="requests" if next_smaller else "",
        allowed_hours_above_80=29.0,
        allowed_unplaced=0.0,
        tried=(Size(nodes=number or 10, hours_above_80=12.0, unplaced=0.0, violations=0),),
    )


def answers() -> CapacityAnswers:
    trace = a_trace(nodes=2, curves=((2_000.0,) * 96,), replicas=(2,), placed=(0, 1))
    simulation = BatchSimulation(trace, BatchRequest(thresholds=(0.65,)))
    for _ in simulation.advance():
        pass
    return CapacityAnswers(batch=simulation.result(), nodes_needed=(needed(),))


def test_json_with_answers_is_an_object_with_the_runs() -> None:
    found = json.loads(encoded([some_figures()], answers()))
    assert found.keys() == {"runs", "batch", "nodes_needed"}
    assert len(found["runs"]) == 1


def test_a_search_that_ran_out_of_time_is_not_shown_as_exact() -> None:
    not_known = msgspec.structs.replace(needed(None, 10), tried=())
    (rows,) = capacity_rows(CapacityAnswers(nodes_needed=(needed(), needed(9, None), needed(None, 10), not_known)))
    assert [row[5] for row in rows.rows] == ["9", "at most 9", "more", "not known"]


def test_the_table_of_consolidation_has_a_row_for_each_margin_and_marks_the_configured_one() -> None:
    trace = a_trace(nodes=2, curves=((2_000.0,) * 96 * 4,), replicas=(2,), placed=(0, 1))
    judged = list(consolidated_days(trace, Settings()))
    (rows,) = capacity_rows(CapacityAnswers(consolidation=by_margin(trace, Settings(), judged)))

    assert "by the forecast of each of 1 days" in rows.title
    assert [row[0] for row in rows.rows] == [
        *(f"{margin} points" for margin in (0, 5, 10, 15, 20)), "Cluster Autoscaler's rules"
    ]  # fmt: skip
    assert rows.ours == {1}


def test_the_page_has_a_picture_and_the_tables_of_each_answer(tmp_path: Path) -> None:
    path = write_report([], [], title="test", command="equipoise lab", folder=tmp_path, width=WIDTH, capacity=answers())
    page = path.read_text()
    assert {"batch.png", "nodes.png"} <= {file.name for file in tmp_path.iterdir()}
    assert page.count("<picture>") == 2
    assert "How many nodes would do" in page
    assert "Batch work that would run" in page


def test_the_best_case_of_the_chart_may_be_the_stock_scheduler_with_other_requests() -> None:
    """Only the stock scheduler with the present requests is what the others are compared with."""
    of_stock = msgspec.structs.replace(needed(7), policy="stock", descheduler=False)
    present, proposed = of_stock, msgspec.structs.replace(of_stock, needed=8, requests="proposed")
    (drawn,) = capacity_charts(CapacityAnswers(nodes_needed=(present, proposed)), WIDTH)

    assert drawn.title == "2 of 10 nodes fewer would do"
