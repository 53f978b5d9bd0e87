"""Why a connection or a file failed, in words."""

import os
import socket
import ssl


def failure_reason(error: BaseException) -> str:
    """In one line, for people: client libraries put the cause into names of classes, tuples and nested exceptions."""
    while error.__cause__ is not None:
        error = error.__cause__
    match error:
        case ssl.SSLCertVerificationError():
            return f"the certificate of the server is rejected: {error.verify_message}"
        case ssl.SSLError() if error.reason:
            return f"TLS failed: {error.reason.lower().replace('_', ' ')}"
        case socket.gaierror():
            return "the name of the host cannot be resolved"
        case TimeoutError():
            return "no response in time"
        case UnicodeDecodeError():
            return "the text is not UTF-8"  # the error itself quotes the text, which may be a secret
        case OSError(errno=int(number)):
            return os.strerror(number).lower()
    return " ".join(str(error).split()) or "the connection was lost"
