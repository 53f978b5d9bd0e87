"""How a command ends: with an error message on stderr and an exit code, and with a traceback only for bugs."""

import asyncio
import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

INTERRUPTED = 130
TERMINATED = 143

_NOT_WRITTEN = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a write to a full disk. Those of stdout name no file."""


class CommandFailed(click.ClickException):
    """The command failed; the message states why, and what to do. Exit code 1."""


class InvalidInput(click.ClickException):
    """Arguments, options or files are invalid; the message states why, and what to do. Exit code 2."""

    exit_code = 2


def exit_on_signals() -> None:
    """Let SIGTERM and SIGHUP raise SystemExit until the event loop starts, so that a command can delete its files."""

    def end(*_: object) -> None:
        raise SystemExit(TERMINATED)

    for number in _ending_signals():
        signal.signal(number, end)


def cancel_on_signals() -> None:
    """Let SIGTERM and SIGHUP cancel this task until the event loop ends, so that it can delete its files."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in _ending_signals():
        loop.add_signal_handler(number, task.cancel)


def _ending_signals() -> list[signal.Signals]:
    """SIGTERM and SIGHUP, without ignored ones. nohup, for example, ignores SIGHUP."""
    return [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turn known errors into a message and an exit code: 1 failed, 2 invalid input, 130 Ctrl-C, 143 another signal."""
    try:
        yield
        sys.stdout.flush()  # at exit, Python would report an error in its own format
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except asyncio.CancelledError:
        raise SystemExit(TERMINATED) from None
    except BrokenPipeError:
        _discard_output()  # the other end of the pipe was closed (`| head`)
        raise SystemExit(0) from None
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NOT_WRITTEN and error.filename is None:
            _discard_output()
        reported = _reported(error)
        if reported is None:
            raise
        raise reported from None


def _discard_output() -> None:
    """Redirects stdout to /dev/null. Python would write the rest again at exit, and report an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _reported(error: BaseException) -> click.ClickException | None:
    """The error to print; None if it is a bug, which needs a traceback."""
    # Imported here, so that commands without errors start faster.
    from equipoise.runtime.bus import BusError
    from equipoise.runtime.bus.dev_server import NoNatsServer
    from equipoise.runtime.configuration import ConfigurationError
    from equipoise.runtime.kubernetes.client import KubeError

    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, click.ClickException):
        return error
    if isinstance(error, ConfigurationError):
        return InvalidInput(str(error))
    if isinstance(error, BusError | KubeError | NoNatsServer):
        return CommandFailed(str(error))
    if isinstance(error, _testbed_errors()):
        return CommandFailed(str(error))
    if isinstance(error, UnicodeDecodeError):
        return InvalidInput(f"the file is not UTF-8: {error.reason} at byte {error.start}")
    if isinstance(error, OSError) and error.errno in _NOT_WRITTEN and error.filename is None:
        return CommandFailed(f"the output cannot be written: {error.strerror}")
    if isinstance(error, OSError) and error.filename is not None:
        return CommandFailed(f"{error.filename}: {error.strerror}")
    return None


def _testbed_errors() -> tuple[type[Exception], ...]:
    """The errors of the testbed; empty if it was not imported, because it may not be installed."""
    if "equipoise.testbed" not in sys.modules:
        return ()
    from equipoise.testbed.api import ApiError
    from equipoise.testbed.binaries.build import BuildError
    from equipoise.testbed.binaries.toolchain import NoGoError
    from equipoise.testbed.cluster import ClusterError
    from equipoise.testbed.processes.guard import GuardError
    from equipoise.testbed.real_nodes.requirements import RealNodesError

    return ApiError, BuildError, ClusterError, GuardError, NoGoError, RealNodesError
