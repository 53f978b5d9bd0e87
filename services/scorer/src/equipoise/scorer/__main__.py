"""The process of the scorer."""

from equipoise.runtime.process.arguments import read_arguments

if __name__ == "__main__":
    read_arguments("scorer")  # before the imports below, which take a second

import numpy  # noqa: F401  now, not during the first request: it takes a tenth of a second

from equipoise.runtime.process.lifecycle import Runtime
from equipoise.runtime.process.main import run
from equipoise.scorer.service import Scorer
from equipoise.scorer.settings import ScorerSettings
from equipoise.scorer.shell.connections import raise_file_limit


async def start(runtime: Runtime[ScorerSettings]) -> None:
    """Create the service and run it until cancelled."""
    shared = runtime.configuration.shared
    scorer = Scorer(
        settings=runtime.own,
        load=shared.load,
        thresholds=shared.thresholds,
        bus=runtime.bus,
        clock=runtime.clock,
        health=runtime.health,
        metrics=runtime.metrics,
        hints=shared.placement.hints,
        identity=runtime.identity,
    )
    await scorer.attach()
    await scorer.run()


def main() -> None:
    """`python -m equipoise.scorer`."""
    raise_file_limit()
    run("scorer", ScorerSettings, start, kube=False)


if __name__ == "__main__":
    main()
