"""The command line of a service: --help and --version. It takes its settings from a file and from variables."""

import argparse
import sys

_EPILOG = """\
environment:
  EQUIPOISE_CONFIG         the configuration file; defaults apply without one
  EQUIPOISE_SECTION__KEY   overrides one key of it, such as EQUIPOISE_NATS__URL

`equipoise config defaults` prints every key. Exit codes: 0 stopped by a signal, 1 failed, 2 invalid configuration.
"""


def read_arguments(service: str) -> None:
    """Ends the process if help or the version is requested, or if there is any other argument.

    It is called before the service is imported, which takes a second.
    """
    from importlib.metadata import version

    parser = argparse.ArgumentParser(
        prog=f"python -m equipoise.{service}",
        description=sys.modules[f"equipoise.{service}"].__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    number = f"equipoise-{service} {version(f'equipoise-{service}')}"
    parser.add_argument("--version", action="version", version=number, help="print the version and exit")
    parser.parse_args()
