"""Reads the cluster once or repeatedly, and prints a list of its nodes or pods."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

import click
import msgspec
from rich.console import Console

from equipoise.cli.cluster_access.kubeconfig import ClusterName
from equipoise.cli.cluster_now.options import NowOptions, reading
from equipoise.cli.cluster_now.reading import ClusterNow, evaluation_settings, read_cluster
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.options import Output
from equipoise.cli.terminal import print_result
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.runtime.process.clock import SystemClock

S = TypeVar("S", bound=msgspec.Struct)
S_contra = TypeVar("S_contra", bound=msgspec.Struct, contravariant=True)

Listed = Callable[[ClusterName, ClusterNow, EvaluationSettings], S]
"""Makes the list from one reading of the cluster."""


class Show(Protocol[S_contra]):
    """Prints the list as text."""

    def __call__(self, found: S_contra, to: Console, /, *, wide: bool) -> None: ...


async def run_list(
    options: NowOptions, make_list: Listed[S], show: Show[S], *, output: Output, watch: float | None
) -> None:
    """Read the cluster and print the list. `watch`: seconds between two readings; the command then does not end.

    Raises CommandFailed if the first reading fails. If a later one fails, its error is printed.
    """
    found, profile, url = await _read(options, make_list, None)
    options = replace(options, prometheus_url=url)
    _print(found, show, output, again=watch is not None)
    clock = SystemClock()
    while watch is not None:
        await clock.sleep(watch)
        try:
            found, _, _ = await _read(options, make_list, profile)
        except (CommandFailed, KubeError) as error:
            click.echo(f"not measured: {error.message}", err=True)
        else:
            _print(found, show, output, again=True)


async def _read(options: NowOptions, make_list: Listed[S], profile: str | None) -> tuple[S, str, str]:
    """The list, and the profile and the URL with which it was measured."""
    async with reading(options, profile) as sources:
        settings, prometheus = evaluation_settings(sources.settings), sources.settings.collector.prometheus
        found = make_list(options.cluster_name, await read_cluster(sources), settings)
        return found, prometheus.profile, prometheus.shown_url


def _print(found: S, show: Show[S], output: Output, *, again: bool) -> None:
    """Print a list. `again`: each list is a line of JSON, a YAML document, or text that replaces the previous text."""
    clears_screen = again and output in ("text", "wide")
    if clears_screen:
        click.clear()
    print_result(found, partial(show, wide=output == "wide"), output=output, watched=again)
    if clears_screen:
        print(flush=True)
