"""TLS of the extender server: changed files are loaded while connections are accepted."""

import ssl
from pathlib import Path

from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.process.main import FileWatch
from equipoise.scorer.settings import ExtenderTls


class Certificates:
    """Certificate, key and client authority, as in the files when they were last valid.

    Every load creates a new context, because a context keeps all that it ever loaded: a removed authority would still
    be trusted. The server listens with the first context, which passes every new connection to the latest one. Raises
    ConfigurationError if the files are invalid.
    """

    def __init__(self, tls: ExtenderTls) -> None:
        self._tls = tls
        self._watches = [FileWatch(Path(name)) for name in _names(tls)]
        self._latest = _context(tls)
        self.context = self._latest
        """The context to listen with."""

        self.context.sni_callback = self._use_latest  # also called without a server name

    def changed(self) -> bool:
        """Whether a file has changed since the last call, and is complete."""
        changes = [watch.changed() for watch in self._watches]  # every watch must check
        return any(changes)

    def reload(self) -> None:
        """Use the current files for new connections.

        Raises ConfigurationError if they are invalid; the earlier ones then remain in use.
        """
        self._latest = _context(self._tls)

    def _use_latest(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, first: ssl.SSLContext) -> None:
        connection.context = self._latest


def _names(tls: ExtenderTls) -> list[str]:
    return [name for name in (tls.certificate_file, tls.key_file, tls.client_ca_file) if name is not None]


def _context(tls: ExtenderTls) -> ssl.SSLContext:
    for name in _names(tls):
        try:
            Path(name).read_bytes()
        except OSError as error:  # OpenSSL does not report the file
            raise ConfigurationError(f"scorer.extender.tls: {name}: {error.strerror}") from error
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # a resumed session does not present its certificate again
    try:
        # Without a password, OpenSSL would prompt on the terminal for that of an encrypted key, and wait.
        context.load_cert_chain(tls.certificate_file, tls.key_file, password="")
    except OSError as error:
        raise ConfigurationError(
            f"scorer.extender.tls: {tls.certificate_file} and {tls.key_file} are not a certificate and its key in PEM "
            f"format, without a password: {_reason(error)}"
        ) from error
    if tls.client_ca_file is not None:
        try:
            context.load_verify_locations(cafile=tls.client_ca_file)
        except OSError as error:
            raise ConfigurationError(
                f"scorer.extender.tls: {tls.client_ca_file} contains no certificate in PEM format: {_reason(error)}"
            ) from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _reason(error: OSError) -> str:
    return getattr(error, "reason", None) or str(error)
