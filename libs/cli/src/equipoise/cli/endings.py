"""How the program ends: one plain sentence on stderr for what a person can mend, a traceback for our own faults."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

FAILED = 1
WRONG_INPUT = 2
INTERRUPTED = 130
TERMINATED = 143


class WrongInput(Exception):
    """What was asked cannot be done as it was asked; the message says why, and what to do."""


@contextmanager
def plain_endings() -> Iterator[None]:
    """Turn what ends a command into an exit code: 1 something failed, 2 wrong input, 130 Ctrl-C, 143 SIGTERM."""
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except asyncio.CancelledError:
        raise SystemExit(TERMINATED) from None
    except BrokenPipeError:
        # Who reads has seen enough. Python would flush the pipe once more at its end, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except Exception as error:
        found = _mendable(error)
        if found is None:
            raise
        said, code = found
        click.echo(f"equipoise: {said}", err=True)
        raise SystemExit(code) from None


def _mendable(error: BaseException) -> tuple[str, int] | None:
    """What to say of an error and the exit code; None: it is a fault of the program."""
    # Imported here, so that commands that need none of it start at once.
    from equipoise.cli.supervisor import ServiceError
    from equipoise.runtime.bus import BusError
    from equipoise.runtime.bus.dev_server import NoNatsServer
    from equipoise.runtime.configuration import ConfigurationError
    from equipoise.runtime.kubernetes.client import KubeError
    from equipoise.testbed.api import ApiError
    from equipoise.testbed.binaries.build import BuildError
    from equipoise.testbed.binaries.toolchain import NoGoError
    from equipoise.testbed.cluster import ClusterError
    from equipoise.testbed.processes.guard import GuardError

    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, WrongInput | ConfigurationError):
        return str(error), WRONG_INPUT
    if isinstance(error, BusError | KubeError | NoNatsServer | ServiceError):
        return str(error), FAILED
    if isinstance(error, ApiError | BuildError | ClusterError | GuardError | NoGoError):
        return str(error), FAILED
    if isinstance(error, UnicodeDecodeError):
        return f"the file is not UTF-8: {error.reason} at byte {error.start}", WRONG_INPUT
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}", FAILED
    return None
