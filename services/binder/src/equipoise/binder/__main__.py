"""`python -m equipoise.binder`."""

from equipoise.runtime.process.arguments import read_arguments

if __name__ == "__main__":
    read_arguments("binder")  # before the imports below, which take a second

from equipoise.binder.service import Binder
from equipoise.binder.settings import BinderSettings
from equipoise.runtime.process.main import run, serving

start = serving(Binder)


def main() -> None:
    run("binder", BinderSettings, start, kube=True)


if __name__ == "__main__":
    main()
