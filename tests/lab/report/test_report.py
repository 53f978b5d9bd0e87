"""The table, JSON, charts and page of a comparison."""

import re
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import msgspec
import numpy as np
import pytest
from cli.narrow import assert_never_cut
from PIL import Image
from rich.console import Console

from equipoise.cli.terminal import FittedTable
from equipoise.lab.report import write_report
from equipoise.lab.report.charts import Chart, charts
from equipoise.lab.report.comparison import Comparison, compared
from equipoise.lab.report.table import encoded, table
from equipoise.lab.results import HourlyLoads, Run, RunFigures

WIDTH = 400
"""Pixels: small charts are drawn fast."""

COMMAND = "equipoise lab compare --trace example --out DIR"


def some_figures(policy: str = "stock", peak: float = 80.0, median: float = 70.0, **fields: object) -> RunFigures:
    """A run of the fresh scenario without the descheduler."""
    defaults: dict[str, object] = {
        "scenario": "fresh",
        "policy": policy,
        "descheduler": False,
        "arrival_seed": 1,
        "sample": "in",
        "nodes": 6,
        "pods": 1_234,
        "peak_spread": peak,
        "median_spread": median,
        "p90_spread": median + 3.25,
        "worst_spread": peak + 5.0,
        "peak_std": peak / 4.0,
        "median_std": median / 4.0,
        "peak_p5": 20.0,
        "peak_p95": 75.0,
        "memory_peak_spread": 12.0,
        "memory_median_spread": 11.0,
        "memory_peak_std": 3.0,
        "hours_above_80": 17.0,
        "hours_above_90": 4.0,
        "work_lost": 0.0125,
    }
    return RunFigures(**(defaults | fields))  # type: ignore[arg-type]


def hourly_loads(spread: float, hours: int = 24) -> HourlyLoads:
    """Six nodes around 50 % with this spread in each hour."""
    return np.repeat(np.linspace(50.0 - spread / 2, 50.0 + spread / 2, 6)[:, None], hours, axis=1).astype(np.float32)


def a_run(figures: RunFigures, hours: int = 24) -> Run:
    return Run(
        figures=figures,
        node_names=tuple(f"node-{number}" for number in range(6)),
        before=hourly_loads(70.0, hours),
        after=hourly_loads(figures.median_spread, hours),
        spread=(figures.median_spread,) * hours,
    )


def several_runs() -> list[Run]:
    """Three scenarios, three policies and a reference, each with and without the descheduler."""
    wide = {"stock": 70.0, "water_level": 52.0, "profile": 30.0, "greedy": 25.0}
    return [
        a_run(
            some_figures(
                policy,
                peak=(peak := points * (0.7 if descheduler else 1.0)),
                median=peak - 2.0,
                scenario=scenario,
                descheduler=descheduler,
                moved_share=0.087 if descheduler else 0.0,
            )
        )
        for scenario in ("fresh", "given", "churn")
        for policy, points in wide.items()
        for descheduler in (False, True)
    ]


def one_comparison(*figures: RunFigures) -> Comparison:
    (comparison,) = compared(figures)
    return comparison


def drawn(*runs: Run) -> list[Chart]:
    """Of one scenario; small, which is fast."""
    return charts(one_comparison(*(run.figures for run in runs)), runs, WIDTH)


def printed(*figures: RunFigures) -> list[str]:
    """The lines of the table."""
    console = Console(width=200, highlight=False)
    with console.capture() as capture:
        console.print(table(figures))
    return capture.get().splitlines()


class Reader(HTMLParser):
    """The elements of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.links: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "img", "source"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")
        self.links += [value or "" for name, value in attrs if name in ("src", "srcset", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "td":
            self.rows[-1][-1] += data


def written(runs: list[Run], folder: Path, notes: tuple[str, ...] = (), title: str = "a trace") -> str:
    return write_report(runs, notes, title=title, command=COMMAND, folder=folder, width=WIDTH).read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of several runs."""
    folder = tmp_path_factory.mktemp("report")
    written(several_runs(), folder, ("Derived requests.",))
    return folder


def test_several_orders_of_arrivals_are_represented_by_their_median_run() -> None:
    """The run with the median sum of peak and median spread."""
    orders = [(30.0, 40.0), (34.0, 31.0), (29.0, 37.0), (50.0, 50.0), (20.0, 24.0)]
    runs = [some_figures("profile", peak, median, arrival_seed=seed) for seed, (peak, median) in enumerate(orders)]
    case = one_comparison(*runs).cases[0]

    assert case.median is runs[2]
    assert case.range(lambda run: run.peak_spread) == (20.0, 50.0)


def test_of_an_even_number_of_orders_the_worse_middle_one_is_used() -> None:
    runs = [some_figures("profile", peak, 30.0, arrival_seed=int(peak)) for peak in (31.0, 30.0, 33.0, 32.0)]

    assert one_comparison(*runs).cases[0].median.peak_spread == 32.0


def test_cases_are_sorted_with_stock_first_and_references_last() -> None:
    """The most level first in between."""
    comparison = one_comparison(
        some_figures("greedy", 20.0, 20.0),
        some_figures("water_level", 60.0, 50.0),
        some_figures("profile", 30.0, 30.0),
        some_figures("stock", descheduler=True),
        some_figures("stock"),
    )

    assert [case.label for case in comparison.cases] == [
        "stock",
        "profile",
        "water_level",
        "stock + descheduler",
        "greedy (reference)",
    ]


def test_the_best_case_has_the_lowest_sum_of_peak_and_median_spread() -> None:
    """24 + 27 is better than 15 + 44."""
    comparison = one_comparison(
        some_figures(),
        some_figures("peaks", 15.0, 44.0),
        some_figures("profile", 24.0, 27.0),
        some_figures("greedy", 1.0, 1.0),
    )

    assert comparison.best is not None
    assert comparison.best.label == "profile"
    assert comparison.finding == (
        "profile levels best: spread 80 → 24 points at the peak hour, 70 → 27 over all hours."
    )


@pytest.mark.parametrize("wrong", [{"violations": 1, "peak_spread": 10.0}, {"unplaced": 30, "peak_spread": 30.0}])
def test_the_best_case_has_no_violations_and_no_extra_unplaced_pods(wrong: dict[str, float]) -> None:
    """Violations in any order of arrivals count; unplaced pods in the median run, compared with stock."""
    stock, level = some_figures(unplaced=2), some_figures("profile", 20.0, 20.0, unplaced=2)
    broken = msgspec.structs.replace(level, arrival_seed=2, **wrong)

    sound, unsound = one_comparison(stock, level), one_comparison(stock, level, broken)
    none = one_comparison(msgspec.structs.replace(stock, violations=1), level, broken)

    assert sound.best is not None
    assert sound.best.label == "profile"
    assert unsound.best is not None
    assert unsound.best.label == "stock"
    assert "no compared case levels better" in unsound.finding
    assert [unsound.names(case)[0] for case in unsound.cases] == ["best", "excluded"]
    assert none.best is None
    assert "No case is without violations" in none.finding


def test_in_sample_and_out_of_sample_are_different_cases() -> None:
    inside, outside = some_figures("profile", 20.0), some_figures("profile", 40.0, sample="out")

    assert [case.label for case in one_comparison(inside, outside).cases] == [
        "profile (in sample)",
        "profile (out of sample)",
    ]


def test_the_table_has_a_row_for_every_case() -> None:
    """Figures with their range over orders of arrivals; the best case of each scenario is marked."""
    lines = printed(
        some_figures("profile", 28.4, 25.0, arrival_seed=1, moved_share=0.087, moves_per_hour=5.44, descheduler=True),
        some_figures("profile", 31.2, 26.0, arrival_seed=2, unplaced=2, descheduler=True),
        some_figures("profile", 22.1, 24.0, arrival_seed=3, descheduler=True),
        some_figures(violations=7, unplaced=2),
        some_figures(scenario="given"),
    )
    rows = [line.split() for line in lines]

    assert [row[:4] for row in rows if "stock" in row] == [
        ["best", "given", "stock", "no"],
        ["excluded", "fresh", "stock", "no"],
    ]
    profile = next(line for line in lines if "profile" in line)
    assert profile.split()[:2] == ["best", "fresh"]
    assert profile.split()[4:] == [
        *("28.4", "(22–32)", "25.0", "(24–26)", "28.2", "7.1", "17", "4", "8.7", "5.4", "0", "(0–2)", "0")
    ]
    assert next(row for row in rows if row[1:3] == ["fresh", "stock"])[-2:] == ["2", "7"]


def test_markup_in_names_is_printed_as_text() -> None:
    assert any("[red]mine[/]" in line for line in printed(some_figures("[red]mine[/]")))


def test_figures_are_a_json_list_with_one_run_per_line() -> None:
    figures = [some_figures(), some_figures("profile", refused={"fit": 2})]
    text = encoded(figures)

    assert msgspec.json.decode(text, type=list[RunFigures]) == figures
    assert len(text.splitlines()) == len(figures) + 2
    assert msgspec.json.decode(encoded([])) == []


def test_each_scenario_has_three_charts(folder: Path) -> None:
    """All different, on a light and a dark background."""
    images = {path.name: Image.open(path) for path in folder.glob("*.png")}

    assert set(images) == {
        f"{kind}-{scenario}.png" for kind in ("heat", "spread", "policies") for scenario in ("given", "churn", "fresh")
    }
    assert {(each.format, each.size) for each in images.values()} == {("PNG", (WIDTH, 225))}
    assert all(np.median(np.asarray(each.convert("L"))[:15]) > 240 for each in images.values())
    assert len({each.tobytes() for each in images.values()}) == len(images)
    for chart in drawn(*(run for run in several_runs() if run.figures.scenario == "fresh")):
        light, dark = (np.asarray(Image.open(BytesIO(png)).convert("L")) for png in (chart.light, chart.dark))
        assert np.median(light[:15]) > 240 > 40 > np.median(dark[:15])
        assert (light[50:] < 200).mean() > 0.01


def test_the_heat_map_has_the_load_before_and_after() -> None:
    """On one scale: the left half has many colors, the right half one. By default 1600 × 900 pixels."""
    runs = [a_run(some_figures()), a_run(some_figures("profile", 0.0, 0.0))]
    heat = charts(one_comparison(*(run.figures for run in runs)), runs)[0]
    pixels = np.asarray(Image.open(BytesIO(heat.light)).convert("RGB"))

    def colors(part: slice) -> set[tuple[int, ...]]:
        return {tuple(map(int, color)) for color in pixels[220:780, part].reshape(-1, 3)}

    assert pixels.shape == (900, 1600, 3)
    assert heat.title == "Spread over all hours: 70 → 0 points"
    assert len(colors(slice(150, 600))) == 6
    assert len(colors(slice(800, 1250))) == 1


@pytest.mark.parametrize("hours", [25, 168])
def test_charts_support_many_policies_and_hours(hours: int) -> None:
    """Nine policies, the stock scheduler, and a week."""
    runs = [a_run(some_figures(f"policy_{number}", 40.0 + number), hours) for number in range(9)]

    assert [chart.name for chart in drawn(*runs, a_run(some_figures(), hours))] == [
        "heat-fresh",
        "spread-fresh",
        "policies-fresh",
    ]


def test_formulas_in_names_are_plain_text_in_charts() -> None:
    """Long names are shortened."""
    runs = [a_run(some_figures("$\\frac$ " + 30 * "long")), a_run(some_figures("_$x_1$", 30.0))]

    assert len(drawn(*runs)) == 3


def test_the_page_contains_the_figures_of_all_cases(folder: Path) -> None:
    """And the command, the notes and the sample. The best case of each scenario is marked."""
    runs, page = several_runs(), (folder / "index.html").read_text()
    rows = [row for row in Reader(page).rows if len(row) > 10 and row[3] in ("yes", "no")][: len(runs)]

    assert {(row[1], row[2].removesuffix(" (reference)"), row[3], row[4]) for row in rows} == {
        (each.scenario, each.policy, "yes" if each.descheduler else "no", f"{each.peak_spread:.1f}")
        for each in (run.figures for run in runs)
    }
    assert [row[1:4] for row in rows if row[0] == "best"] == [
        [scenario, "profile", "yes"] for scenario in ("given", "churn", "fresh")
    ]
    for text in (COMMAND, "Derived requests.", "In sample:", "6 nodes, 1,234 pods", "levels best in every scenario"):
        assert text in page
    assert "68 → 19" in page
    assert "Out of sample" not in page


def test_the_page_is_self_contained(folder: Path) -> None:
    """No scripts and no requests: it contains all charts, light and dark."""
    page = (folder / "index.html").read_text()
    reader = Reader(page)

    assert len(reader.links) == 2 * 9
    assert all(link.startswith("data:image/png;base64,") for link in reader.links)
    assert not {"script", "link", "iframe"} & set(reader.tags)
    assert not re.search(r"https?:|url\(|@import", page)


def test_html_in_names_is_escaped_on_the_page(tmp_path: Path) -> None:
    """In titles, notes, policies and reasons."""
    html = "<script>alert('&')</script>"
    run = a_run(some_figures(html, refused={html: 3}))
    page = written([run], tmp_path, (html,), title=html)

    assert "script" not in Reader(page).tags
    assert page.count("&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;") >= 5


def test_a_report_without_runs_is_empty(tmp_path: Path) -> None:
    page = written([], tmp_path / "new" / "folder")

    assert "No runs: nothing to compare" in page
    assert COMMAND in page
    assert Reader(page).links == []
    assert (tmp_path / "new" / "folder" / "figures.json").read_text() == "[]\n"
    assert printed()[-1].strip() == "no runs: nothing to compare"


def test_a_report_may_contain_a_single_run(tmp_path: Path) -> None:
    """Of the stock scheduler, or of another policy."""
    stock, alone = written([a_run(some_figures())], tmp_path), written([a_run(some_figures("profile", 20.0))], tmp_path)

    assert "<h1>Spread over all hours: 70 points</h1>" in stock
    assert "The stock scheduler: spread 80 points at the peak hour, 70 over all hours." in stock
    assert "profile levels best: spread 20 points at the peak hour" in alone
    assert len(Reader(alone).links) == 6


def test_the_figures_of_all_runs_are_written_as_json(folder: Path) -> None:
    assert (folder / "figures.json").read_text() == encoded([run.figures for run in several_runs()])


def test_no_terminal_is_too_narrow_for_the_table() -> None:
    """Fourteen columns."""
    figures = [run.figures for run in several_runs()]
    assert_never_cut(lambda shown, to: to.print(table(shown, FittedTable)), figures)
