"""The signals that processes started by tests ignore: none."""

import signal


def stop_ignoring_signals() -> None:
    """Children inherit which signals are ignored, but no handlers.

    nohup ignores SIGHUP, and a shell without job control ignores SIGINT in its background processes. This process
    itself does not end by an ignored SIGHUP: a run under nohup outlives its terminal.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda _number, _frame: None)
