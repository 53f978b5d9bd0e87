"""`python -m equipoise.annotator`."""

from equipoise.runtime.process.arguments import read_arguments

if __name__ == "__main__":
    read_arguments("annotator")  # before the imports below, which take a second

from equipoise.annotator.service import Annotator
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.runtime.process.main import run, serving

start = serving(Annotator)


def main() -> None:
    run("annotator", AnnotatorSettings, start, kube=True)


if __name__ == "__main__":
    main()
