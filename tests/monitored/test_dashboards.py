"""The dashboards: their queries name what is exported, and Grafana can show them."""

import json
import re
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import NOW
from collector.shell.test_pressure_measurement import MEASURED
from flow.loop import APPS, IDLE
from monitored.exported import exported
from monitored.promtool import needs_promtool
from monitored.queries import selectors
from monitored.scrapes import Scrapes
from monitored.test_faults import Watched
from monitoring.__main__ import ROOT
from monitoring.dashboards import DASHBOARDS, Dashboard
from monitoring.grafana import WIDTH, document, kustomization, name

FOLDER = ROOT / "dashboards"

each = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)

UNITS = {"short", "percentunit", "s", "bytes", "ops", "reqps"}
"""Ids of Grafana's units that the dashboards use."""


def panels(dashboard: Dashboard) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document(dashboard)["panels"]
    return found


def test_identifiers_are_unique_and_valid() -> None:
    """Grafana replaces a dashboard with the same uid, of at most 40 characters."""
    uids = [dashboard.uid for dashboard in DASHBOARDS]

    assert len(set(uids)) == len(uids)
    assert all(re.fullmatch(r"[a-z-]{1,40}", uid) for uid in uids)


@each
def test_panels_have_identifiers_of_their_own(dashboard: Dashboard) -> None:
    ids = [panel["id"] for panel in panels(dashboard)]
    titles = [panel["title"] for panel in panels(dashboard)]

    assert ids == list(range(1, len(ids) + 1))
    assert len(set(titles)) == len(titles)


@each
def test_no_panel_overlaps_another_or_leaves_the_grid(dashboard: Dashboard) -> None:
    places = [panel["gridPos"] for panel in panels(dashboard)]

    assert all(place["x"] + place["w"] <= WIDTH and place["h"] > 0 for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]

        assert beside or below


@each
def test_every_panel_has_a_unit_a_text_and_the_chosen_data_source(dashboard: Dashboard) -> None:
    variables = {variable["name"] for variable in document(dashboard)["templating"]["list"]}

    assert variables == {"datasource", "namespace"}
    for panel in panels(dashboard):
        if panel["type"] == "row":
            continue
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        assert panel["targets"]
        for part in (panel, *panel["targets"]):
            assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters)
        for target in panel["targets"]:
            used = set(re.findall(r"\$(?!__)\{?(\w+)", target["expr"]))
            assert used == {"namespace"}


async def test_every_metric_and_label_of_a_query_is_exported() -> None:
    """Metrics of every Python process, such as process_cpu_seconds_total, are restricted to ours with a join."""
    known = await exported()
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            for query in panel.queries:
                found = list(selectors(query.expression))
                assert found, panel.title
                for selector in found:
                    assert selector.metric in known, f"{panel.title}: {selector.metric}"
                    labels = {label for label, _, _ in selector.matchers} - {"namespace", "le"}
                    assert labels <= set(known[selector.metric].labels), f"{panel.title}: {labels}"
                    assert ("namespace", "=~", "$namespace") in selector.matchers, f"{panel.title}: {selector.metric}"


def test_every_dashboard_becomes_a_config_map() -> None:
    """kubectl writes it into an annotation too, which may have 256 KiB."""
    written = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    files = {file for entry in written["configMapGenerator"] for file in entry["files"]}

    assert written == kustomization()
    assert files == {path.name for path in FOLDER.glob("*.json")} == {f"{name(each)}.json" for each in DASHBOARDS}
    assert written["generatorOptions"]["labels"] == {"grafana_dashboard": "1"}
    for path in FOLDER.glob("*.json"):
        assert json.loads(path.read_text())["uid"] == f"equipoise-{path.stem}"
        assert path.stat().st_size < 250_000


NOTHING_HAPPENED = (
    "Problems",
    "Problems of the bus",
    "Errors of the bus",
    "Proposed per hour",
    "Outcomes per hour",
    "Rejected by a limit, per hour",
    "Load after evictions, per day",
    "Requests of kube-scheduler",
    "Connections closed",
    "Neutral scores",
    "Placed pods by their hint, per hour",
    "Advice",
)
"""Panels of errors and other events."""


class TestPressure:
    pytestmark = needs_promtool

    @pytest.mark.parametrize("measured", [MEASURED, {}], ids=["measured", "unknown"])
    async def test_the_panel_of_pressure_is_empty_only_where_none_is_measured(
        self, tmp_path: Path, measured: dict[str, float]
    ) -> None:
        """The source of the demo has none, so that the panel may be empty there."""
        panel = next(panel for each in DASHBOARDS for panel in each.panels if panel.title == "Highest pressure")
        query = panel.queries[0].expression.replace("$namespace", ".*")
        loop = Watched()
        loop.scrapes = Scrapes(NOW, {selector.metric for selector in selectors(query)})
        loop.source.pressures = measured
        async with loop.running():
            await loop.run_for(3)

        expected = sorted(measured[name] for name in ("cpu", "memory", "io")) if measured else []
        assert sorted(loop.scrapes.values(tmp_path, [query])[query]) == pytest.approx(expected)


class TestWithoutEvents:
    pytestmark = needs_promtool

    async def test_panels_of_events_show_zero_and_without_services_nothing(self, tmp_path: Path) -> None:
        """In a level cluster, before the first request of kube-scheduler."""
        queries = {
            panel.title: panel.queries[0].expression.replace("$namespace", ".*").replace("$__rate_interval", "5m")
            for dashboard in DASHBOARDS
            for panel in dashboard.panels
            if panel.title in NOTHING_HAPPENED
        }
        metrics = {selector.metric for query in queries.values() for selector in selectors(query)}
        loop = Watched()
        loop.scrapes = Scrapes(NOW, metrics)
        for app, (number, node) in product(APPS, enumerate(IDLE)):
            loop.place(app, f"{app}-1-{number}", node)
        async with loop.running():
            await loop.run_for(10)

        values = loop.scrapes.values(tmp_path, list(queries.values()))
        without = Scrapes(NOW, metrics).values(tmp_path, list(queries.values()))
        assert {title: set(values[query]) for title, query in queries.items()} == {
            title: {0.0} for title in NOTHING_HAPPENED
        }
        assert [title for title, query in queries.items() if without[query]] == []
