"""Starts the collector."""

import os

from equipoise.runtime.process.arguments import read_arguments

if __name__ == "__main__":
    read_arguments("collector")  # before the imports below, which take a second

from equipoise.collector.service import Collector
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.sources import open_promql_source, open_source
from equipoise.runtime.configuration.discovered import stored_reason
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.runtime.process.main import run


async def start(runtime: Runtime[CollectorSettings]) -> None:
    """Runs until canceled."""
    settings, shared = runtime.own, runtime.configuration.shared
    collector = Collector(
        settings=settings,
        load=shared.load,
        namespace=shared.kubernetes.namespace,
        identity=runtime.identity,
        source=open_source(settings, shared.load, runtime.clock, runtime.kube),
        promql=open_promql_source(settings, shared.load, runtime.clock),
        kube=runtime.kube,
        bus=runtime.bus,
        clock=runtime.clock,
        health=runtime.health,
        metrics=runtime.metrics,
        discovery=stored_reason(os.environ),
    )
    await collector.attach()
    await collector.run()


def main() -> None:
    """`python -m equipoise.collector`."""
    run("collector", CollectorSettings, start, kube=True)


if __name__ == "__main__":
    main()
