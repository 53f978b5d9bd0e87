"""`python -m equipoise.annotator`."""

from equipoise.annotator.service import Annotator
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.runtime.process.main import run


async def start(runtime: Runtime[AnnotatorSettings]) -> None:
    shared = runtime.configuration.shared
    annotator = Annotator(
        settings=runtime.own,
        load=shared.load,
        namespace=shared.kubernetes.namespace,
        identity=runtime.identity,
        bus=runtime.bus,
        kube=runtime.kube,
        clock=runtime.clock,
        health=runtime.health,
        metrics=runtime.metrics,
    )
    await annotator.attach()
    await annotator.run()


def main() -> None:
    run("annotator", AnnotatorSettings, start, kube=True)


if __name__ == "__main__":
    main()
