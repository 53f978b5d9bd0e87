"""Reads the cluster once and prints the report. Writes nothing anywhere."""

from collections.abc import Sequence

from equipoise.cli.cluster_now.options import NowOptions, reading
from equipoise.cli.cluster_now.reading import evaluation_settings, read_cluster
from equipoise.cli.report.now.figures import now_report
from equipoise.cli.report.now.show import show
from equipoise.cli.terminal import print_result
from equipoise.descheduler.decisions.strategies import Strategy


def windows_used(strategies: Sequence[Strategy], shortest: str) -> set[str]:
    """The names of the windows that the strategies use: a strategy that names none uses the shortest one."""
    return {name for strategy in strategies for name in getattr(strategy, "windows", ()) or (shortest,)}


async def run_report_now(options: NowOptions, *, as_json: bool) -> None:
    """Raises CommandFailed, with what to do, if the cluster or Prometheus cannot be read."""
    async with reading(options) as sources:
        evaluation = evaluation_settings(sources.settings)
        chosen = sources.settings.descheduler.chosen_strategies(sources.settings.shared.moves.level)
        used = windows_used(chosen, evaluation.load.shortest.name)
        windows = tuple(window for window in evaluation.load.windows if window.name in used)
        now = await read_cluster(sources, windows=windows, days=True)
        sources.activity.begin("planning")
        prometheus = sources.settings.collector.prometheus
        report = now_report(
            now,
            evaluation,
            cluster=options.cluster_name,
            prometheus=prometheus.shown_url,
            profile=prometheus.profile,
            profile_detected=sources.profile_detected,
            options=options.words,
        )
    print_result(report, show, as_json=as_json)
