"""`equipoise lab`: its commands, as users run them."""

import csv
import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from lab.traces import a_trace
from msgspec import structs

from equipoise.cli.lab.record import next_step
from equipoise.cli.lab.replays import replay_settings
from equipoise.cli.main import main
from equipoise.lab.formats.folder import write
from equipoise.lab.record import Summary


def lab(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["lab", *arguments], catch_exceptions=False)


def test_compare_prints_a_table_and_writes_a_report(tmp_path: Path) -> None:
    """Of the example by default; the stock scheduler is always included."""
    done = lab(
        "compare", "--scenario", "fresh", "--policy", "profile", "--descheduler", "without", "--processes", "1",
        "--out", str(tmp_path / "out"),
    )  # fmt: skip

    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[row.index("fresh") + 1] for row in rows if "fresh" in row] == ["stock", "profile"]
    assert "311 pods" in done.stderr
    assert "nothing in it was measured" in done.stderr
    assert (tmp_path / "out" / "index.html").stat().st_size > 10_000


def test_json_is_one_object_per_run() -> None:
    """With the figures that programs look at, and nothing else on standard output."""
    done = lab(
        "compare", "--scenario", "fresh", "--policy", "profile", "--descheduler", "without", "--processes", "1",
        "-o", "json",
    )  # fmt: skip

    runs = json.loads(done.stdout)
    assert {"stock", "profile"} == {run["policy"] for run in runs}
    wanted = (
        "scenario policy descheduler arrival_seed peak_spread median_spread p90_spread peak_std hours_above_90 "
        "moved_share moves_per_hour moves_executable unplaced violations"
    )
    assert all(set(wanted.split()) <= run.keys() for run in runs)


def test_a_replay_uses_the_configuration_of_moves_and_of_deletion_costs() -> None:
    """They are in a shared section, and in the section of another service."""
    document = {"surge": {"mode": "always"}, "annotator": {"deletionCosts": "hottestNodes"}}

    settings = replay_settings(document)

    assert ("always", "hottestNodes") == (settings.surge.mode, settings.deletion_costs)


def test_the_error_for_another_folder_lists_the_files_of_a_trace(tmp_path: Path) -> None:
    """Exit code 2."""
    done = lab("compare", "--trace", str(tmp_path))

    assert done.exit_code == 2
    assert "is not a trace folder" in done.stderr


def test_the_error_for_an_unknown_policy_names_it() -> None:
    """And lists all policies."""
    done = lab("compare", "--policy", "best")

    assert done.exit_code == 2
    assert "no such policy: best" in done.stderr
    assert "profile" in done.stderr


def test_a_sweep_reads_paths_of_the_configuration(tmp_path: Path) -> None:
    """A row for each combination; the second time nothing is replayed."""
    file = tmp_path / "sweep.csv"
    arguments = (
        "sweep", "--scenario", "fresh", "--descheduler", "without", "--processes", "1", "--out", str(file),
        "--set", "scorer.policy.name=profile", "--set", "scorer.policy.resourceWeights.memory=0,1",
    )  # fmt: skip

    first, second = lab(*arguments), lab(*arguments)

    assert (first.exit_code, second.exit_code) == (0, 0), first.output
    with file.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert ["0", "1"] == [row["scorer.policy.resourceWeights.memory"] for row in rows]
    assert rows[0]["peak_spread"] != rows[1]["peak_spread"]


def test_an_unknown_path_of_the_configuration_is_invalid_input(tmp_path: Path) -> None:
    """The error names the key."""
    done = lab("sweep", "--set", "scorer.leastSpred=1", "--out", str(tmp_path / "sweep.csv"))

    assert done.exit_code == 2
    assert "leastSpred" in done.stderr


def test_whatif_names_what_a_short_recording_cannot_show(tmp_path: Path) -> None:
    """Less than an hour is refused, less than a day has a note, also in the report."""
    for steps, folder in ((2, "minutes"), (20, "hours")):
        (tmp_path / folder).mkdir()
        write(a_trace(nodes=2, curves=((2_000.0,) * steps,), replicas=(2,), placed=(0, 0)), tmp_path / folder)
    arguments = ("--descheduler", "without", "--processes", "1")
    refused = lab("whatif", str(tmp_path / "minutes"), *arguments)
    assert refused.exit_code == 2
    assert "has 30 min of usage, too little to compare policies: record at least a day" in refused.stderr
    done = lab("whatif", str(tmp_path / "hours"), *arguments)
    assert done.exit_code == 0, done.output
    note = "5 h of usage are repeated to a day"
    assert note in done.stderr
    assert note in (tmp_path / "hours" / "report" / "index.html").read_text()
    assert "Best is the lowest sum" in done.stdout


@pytest.mark.parametrize(
    ("hours", "expected"),
    [(0.5, "record again when Prometheus has at least a day"), (168.0, "equipoise lab whatif week")],
)
def test_a_recording_ends_with_the_next_step(hours: float, expected: str) -> None:
    """A short one is of no use for whatif."""
    summary = Summary(
        folder=Path("week"), nodes=1, workloads=1, pods=1, hours=hours, missing=0.0, unowned_cpu=0.0, bytes=1,
        queries=1, notes=(),
    )  # fmt: skip
    assert next_step(summary).startswith(expected)


def test_whatif_writes_its_report_beside_the_recording(tmp_path: Path) -> None:
    """Both scenarios that start with the recorded placement, with every policy."""
    trace = a_trace(nodes=3, curves=((2_000.0,) * 96, (100.0,) * 96), replicas=(2, 4), placed=(0, 0, 1, 1, 2, 2))
    write(trace, tmp_path)

    done = lab("whatif", str(tmp_path), "--descheduler", "without", "--processes", "1")

    assert done.exit_code == 0, done.output
    assert "given" in done.stdout
    assert "churn" in done.stdout
    assert (tmp_path / "report" / "index.html").exists()


def test_a_plugin_is_compared_and_its_problems_are_printed(tmp_path: Path) -> None:
    """Below the table; and in JSON for each run."""
    file = tmp_path / "broken_plugin.py"
    file.write_text("class Broken:\n    name = 'Broken'\n    def score_node(self, *values): return 1 / 0\n")
    arguments = ("--scenario", "fresh", "--descheduler", "without", "--policy", "stock", "--processes", "1")

    shown = lab("compare", *arguments, "--plugin", f"{file}:Broken")
    printed = lab("compare", *arguments, "--plugin", f"{file}:Broken", "-o", "json")
    unknown = lab("compare", *arguments, "--plugin", f"{file}:Unknown")

    problem = "plugin Broken failed in score: ZeroDivisionError: division by zero"
    assert f"fresh: {problem}" in shown.output
    [run] = [run for run in json.loads(printed.stdout) if run["policy"] == "Broken"]
    assert [problem] == list(run["plugin_problems"])
    assert (2, True) == (unknown.exit_code, "has no class Unknown" in unknown.output)


def test_consolidation_is_judged_on_the_days_after_those_it_learns_from(tmp_path: Path) -> None:
    """A recording of four days; one of a day has none to judge."""
    file = tmp_path / "one-replica.yaml"
    file.write_text("apiVersion: equipoise.dev/v1alpha1\nkind: EquipoiseConfiguration\nprotection: {minReplicas: 1}\n")
    arguments = ("--consolidation", "--policy", "stock", "--descheduler", "without", "--processes", "1")
    for days in (4, 1):
        trace = a_trace(nodes=3, curves=((1_000.0,) * 96 * days,) * 3, replicas=(1, 1, 1), placed=(0, 1, 2))
        write(trace, tmp_path / f"days-{days}")

    done = lab("whatif", str(tmp_path / "days-4"), *arguments, "--config", str(file), "-o", "json")
    short = lab("whatif", str(tmp_path / "days-1"), *arguments)

    assert done.exit_code == 0, done.output
    [configured] = [each for each in json.loads(done.stdout)["consolidation"] if each["configured"]]
    assert (configured["removed"], configured["caused"], len(configured["days"])) == (2.0, 0.0, 1)
    assert (2, True) == (short.exit_code, "has fewer than 4 whole days" in short.output)


def test_requests_are_proposed_proved_by_replay_and_written_as_manifests(tmp_path: Path) -> None:
    """A pod uses a tenth of the CPU that it requests, and half of the memory."""
    trace = a_trace(nodes=4, curves=((500.0,) * 192,), replicas=(6,), placed=(0, 0, 1, 1, 2, 3), memory_mib=1_000.0)
    workload = structs.replace(
        trace.workloads[0], request_cpu_milli=4_000, request_memory_mib=2_000, containers=("main",)
    )
    write(structs.replace(trace, workloads=(workload,)), tmp_path)

    arguments = ("--policy", "profile", "--descheduler", "without", "--processes", "1", "-o", "json")
    done = lab("whatif", str(tmp_path), "--requests", *arguments)

    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)["requests"]
    assert not answer["in_sample"]
    [found] = answer["workloads"]
    assert found["proposal"]["proposed"] == {"cpu_milli": 575, "memory_mib": 1_150}
    assert found["scaling"]["target"] == round(80 * 4_000 / 575)
    assert answer["fits"]["present"]["cpu_slack"] == 0.875
    needed = {case["requests"]: case["needed"] for case in answer["nodes_needed"] if case["policy"] == "stock"}
    assert needed == {"present": 3, "proposed": 1, "recommended": 1}
    manifests = [
        list(yaml.safe_load_all((tmp_path / "report" / name).read_text()))
        for name in ("vertical-pod-autoscalers.yaml", "requests-patches.yaml")
    ]
    assert [[each["metadata"]["name"] for each in documents] for documents in manifests] == [["web-0"], ["web-0"]]
    page = (tmp_path / "report" / "index.html").read_text()
    assert "Proposed requests, by team" in page
    assert "out of sample" in page
