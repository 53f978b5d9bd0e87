"""Why a connection or a file failed, in words."""

import asyncio
import os
import socket
import ssl


class NameNotResolved(OSError):
    """A name was not resolved, because the DNS servers do not respond."""

    def __init__(self, host: str, seconds: float) -> None:
        super().__init__(f"the name {host} was not resolved within {seconds:g} s: the DNS does not respond")


def failure_reason(error: BaseException) -> str:
    """The cause of an error in one line, for people. Client libraries hide it in class names, tuples and nested
    exceptions."""
    while error.__cause__ is not None and not isinstance(error.__cause__, asyncio.CancelledError):
        error = error.__cause__  # unless the cause is only the cancellation by a time limit
    match error:
        case ssl.SSLCertVerificationError():
            return f"the certificate of the server is rejected: {error.verify_message}"
        case ssl.SSLError() if error.reason:
            return f"TLS failed: {error.reason.lower().replace('_', ' ')}"
        case socket.gaierror(errno=socket.EAI_AGAIN):
            return "the name of the host cannot be resolved: the DNS does not respond, or fails"
        case socket.gaierror():
            return "the name of the host cannot be resolved"
        case NameNotResolved():
            return str(error)
        case TimeoutError():
            return "no response in time"
        case UnicodeDecodeError():
            return "the text is not UTF-8"  # the error itself quotes the text, which may be a secret
        case OSError(errno=int(number)):
            return os.strerror(number).lower()
    return " ".join(str(error).split()) or "the connection was lost"
