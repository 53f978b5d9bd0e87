"""The extender's TLS: files that are watched, and exchanged while connections come in."""

import ssl
from pathlib import Path

from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.process.reload import FileWatch
from equipoise.scorer.settings import ExtenderTls


class Certificates:
    """Certificate, key and the authority of callers, as they were in the files when they were last good.

    Each load makes a new context, for what one has once loaded stays in it: an authority that is withdrawn would go on
    being trusted, and half of a broken pair would spoil a good one. The port keeps the first, which hands every new
    connection over to the latest. Raises ConfigurationError when the files cannot be used.
    """

    def __init__(self, tls: ExtenderTls) -> None:
        self._tls = tls
        self._watches = [FileWatch(Path(name)) for name in _names(tls)]
        self._latest = _context(tls)
        self.context = self._latest
        """What to listen with."""

        self.context.sni_callback = self._hand_over  # called for callers without a server name too

    def changed(self) -> bool:
        """Whether a file has changed and come to rest since the last look."""
        looks = [watch.changed() for watch in self._watches]  # every one of them has to look
        return any(looks)

    def reload(self) -> None:
        """Use what the files hold now for new connections; those that are open go on.

        Raises ConfigurationError when they cannot be used, and everything stays as it was.
        """
        self._latest = _context(self._tls)

    def _hand_over(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, first: ssl.SSLContext) -> None:
        connection.context = self._latest


def _names(tls: ExtenderTls) -> list[str]:
    return [name for name in (tls.certificate_file, tls.key_file, tls.client_ca_file) if name is not None]


def _context(tls: ExtenderTls) -> ssl.SSLContext:
    for name in _names(tls):
        try:
            Path(name).read_bytes()
        except OSError as error:  # OpenSSL would not say which file it is
            raise ConfigurationError(f"scorer.extender.tls: {name}: {error.strerror}") from error
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # a resumed session would not be asked for its certificate again
    try:
        # Without a password here, OpenSSL would ask for that of a locked key on the terminal, and wait.
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
                f"scorer.extender.tls: {tls.client_ca_file} holds no certificate in PEM format: {_reason(error)}"
            ) from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _reason(error: OSError) -> str:
    return getattr(error, "reason", None) or str(error)
