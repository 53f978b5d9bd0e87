"""Starts the binder."""

from equipoise.binder.service import Binder
from equipoise.binder.settings import BinderSettings
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.runtime.process.main import run


async def start(runtime: Runtime[BinderSettings]) -> None:
    """Runs the service until it is cancelled."""
    binder = Binder(
        settings=runtime.own,
        shared=runtime.configuration.shared,
        bus=runtime.bus,
        kube=runtime.kube,
        clock=runtime.clock,
        health=runtime.health,
        metrics=runtime.metrics,
        identity=runtime.identity,
    )
    await binder.attach()
    await binder.run()


def main() -> None:
    """`python -m equipoise.binder`."""
    run("binder", BinderSettings, start, kube=True)


if __name__ == "__main__":
    main()
