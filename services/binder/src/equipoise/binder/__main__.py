"""`python -m equipoise.binder`."""

from equipoise.runtime.process.arguments import read_arguments

if __name__ == "__main__":
    read_arguments("binder")  # before the imports below, which take a second

from equipoise.binder.service import Binder
from equipoise.binder.settings import BinderSettings
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.runtime.process.main import run


async def start(runtime: Runtime[BinderSettings]) -> None:
    """Runs the service until it is canceled."""
    service = Binder(runtime)
    await service.attach()
    await service.run()


def main() -> None:
    run("binder", BinderSettings, start, kube=True)


if __name__ == "__main__":
    main()
