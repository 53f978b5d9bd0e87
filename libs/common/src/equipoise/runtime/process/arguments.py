"""The command line of a service: --help and --version. Settings come from a file and from environment variables."""

import argparse
import sys

_EPILOG = """\
environment:
  EQUIPOISE_CONFIG         the configuration file; defaults apply without one
  EQUIPOISE_SECTION__KEY   overrides one key of it, such as EQUIPOISE_NATS__URL

`equipoise config defaults` prints every key. Exit codes: 0 stopped by a signal, 1 failed, 2 invalid configuration.
"""


def read_arguments(program: str) -> None:
    """Ends the process if help or the version is requested, or if there is any other argument.

    It is called before the service is imported, because the import takes a second. `program`: the module of the service
    below `equipoise`.
    """
    from importlib.metadata import version

    parser = argparse.ArgumentParser(
        prog=f"python -m equipoise.{program}",
        description=sys.modules[f"equipoise.{program}"].__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    distribution = f"equipoise-{program.partition('.')[0]}"
    number = f"{distribution} {version(distribution)}"
    parser.add_argument("--version", action="version", version=number, help="print the version and exit")
    parser.parse_args()
