"""`python -m equipoise.descheduler`."""

from equipoise.runtime.process.arguments import read_arguments

if __name__ == "__main__":
    read_arguments("descheduler")  # before the imports below, which take a second

import numpy  # noqa: F401  now, not during the first request: it takes a tenth of a second

from equipoise.descheduler.service import Descheduler
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.runtime.process.main import run, serving

start = serving(Descheduler)


def main() -> None:
    run("descheduler", DeschedulerSettings, start, kube=True)


if __name__ == "__main__":
    main()
