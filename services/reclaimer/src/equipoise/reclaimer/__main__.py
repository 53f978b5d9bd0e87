"""`python -m equipoise.reclaimer`."""

from equipoise.runtime.process.arguments import read_arguments

if __name__ == "__main__":
    read_arguments("reclaimer")  # before the imports below, which take a second

import numpy  # noqa: F401  now, not during the first evaluation: it takes a tenth of a second

from equipoise.reclaimer.service import Reclaimer
from equipoise.reclaimer.settings import ReclaimerSettings
from equipoise.runtime.process.main import run, serving

start = serving(Reclaimer)


def main() -> None:
    run("reclaimer", ReclaimerSettings, start, kube=True)


if __name__ == "__main__":
    main()
