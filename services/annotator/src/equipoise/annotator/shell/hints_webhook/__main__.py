"""`python -m equipoise.annotator.shell.hints_webhook`."""

from equipoise.runtime.process.arguments import read_arguments

if __name__ == "__main__":
    read_arguments("annotator.shell.hints_webhook")  # before the imports below, which take a second

from equipoise.annotator.settings import AnnotatorSettings
from equipoise.annotator.shell.hints_webhook.service import serve
from equipoise.runtime.process.main import run


def main() -> None:
    run("annotator", AnnotatorSettings, serve, kube=True, bus=False)


if __name__ == "__main__":
    main()
