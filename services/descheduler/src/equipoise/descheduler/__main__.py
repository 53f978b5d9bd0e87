"""Starts the descheduler."""

from equipoise.descheduler.service import Descheduler
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.runtime.process.main import run


async def start(runtime: Runtime[DeschedulerSettings]) -> None:
    """Runs until cancelled."""
    shared = runtime.configuration.shared
    descheduler = Descheduler(
        settings=runtime.own,
        load=shared.load,
        thresholds=shared.thresholds,
        namespaces=shared.namespaces,
        protection=shared.protection,
        own_namespace=shared.kubernetes.namespace,
        identity=runtime.identity,
        kube=runtime.kube,
        bus=runtime.bus,
        clock=runtime.clock,
        health=runtime.health,
        metrics=runtime.metrics,
    )
    await descheduler.attach()
    await descheduler.run()


def main() -> None:
    """The program of this service."""
    run("descheduler", DeschedulerSettings, start, kube=True)


if __name__ == "__main__":
    main()
