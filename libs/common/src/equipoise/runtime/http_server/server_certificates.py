"""The TLS certificates of a server. Changed files are loaded while connections are accepted."""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import structlog

from equipoise.contracts.configuration.server_tls import ServerTls
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.main import PERIOD, FileWatch

log = structlog.get_logger()

_DER_VERSION, _DER_UTC_TIME = 0xA0, 0x17
"""Tags: the explicit version of a TBSCertificate, and a time with two digits of the year."""


class Certificates:
    """The certificate, key and client CA from the files, when they were last valid.

    Every load creates a new context, because a context keeps everything that it ever loaded, and would still trust a
    removed CA. The server listens with the first context, which passes every new connection to the latest one. Raises
    ConfigurationError if the files are invalid.
    """

    def __init__(self, tls: ServerTls, setting: str) -> None:
        """`setting`: the path of `tls` in the configuration, for errors."""
        self._tls, self._setting = tls, setting
        self._watches = [FileWatch(Path(name)) for name in _names(tls)]
        self._latest = _context(tls, setting)
        self.end = _certificate_expiry(tls)
        """The time at which the certificate expires (Unix seconds); 0 if that is unknown."""

        self.context = self._latest
        """The context with which to listen."""

        self.context.sni_callback = self._use_latest  # also called without a server name

    def changed(self) -> bool:
        """Whether a file has changed since the last call, and is complete."""
        changes = [watch.changed() for watch in self._watches]  # every watch must check
        return any(changes)

    def reload(self) -> None:
        """Uses the current files for new connections.

        Raises ConfigurationError if they are invalid; the earlier ones then remain in use.
        """
        self._latest = _context(self._tls, self._setting)
        self.end = _certificate_expiry(self._tls)

    async def follow(self, clock: Clock, health: Health, on_reload: Callable[[], None]) -> NoReturn:
        """Loads changed files. Invalid files are reported, and the last valid ones remain in use."""
        valid = True
        while True:
            await clock.sleep(PERIOD)
            if valid and not self.changed():
                continue
            try:
                self.reload()
            except ConfigurationError as error:
                valid = False
                health.set_problem(
                    "certificates", f"the changed certificates are invalid, the old ones are used: {error}"
                )
            else:
                valid = True
                on_reload()
                health.set_problem("certificates", None)
                log.info("certificates reloaded")

    def _use_latest(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, first: ssl.SSLContext) -> None:
        connection.context = self._latest


def _certificate_expiry(tls: ServerTls) -> float:
    """The time at which the certificate expires. 0 if it cannot be read: it may have changed since, or have a form that
    only OpenSSL reads."""
    try:
        return certificate_end(Path(tls.certificate_file).read_text())
    except (OSError, ValueError, IndexError):
        return 0.0


def certificate_end(pem: str) -> float:
    """The time at which the first certificate of a valid PEM file expires (Unix seconds).

    `ssl` reports this only for the certificate of the peer. RFC 5280: Certificate and TBSCertificate are sequences;
    TBSCertificate begins with [0] version, serialNumber, signature, issuer, validity (notBefore, notAfter).
    """
    begin, end = (pem.index(f"-----{word} CERTIFICATE-----") for word in ("BEGIN", "END"))
    der = ssl.PEM_cert_to_DER_cert(pem[begin:end] + "-----END CERTIFICATE-----")
    _, body, _ = _der_element(der, 0)
    _, at, _ = _der_element(der, body)
    tag = der[at]
    for _ in range(4 if tag == _DER_VERSION else 3):
        _, _, at = _der_element(der, at)
    _, validity, _ = _der_element(der, at)
    _, _, at = _der_element(der, validity)
    tag, start, end = _der_element(der, at)
    text = der[start:end].decode()
    if tag == _DER_UTC_TIME:  # two digits of the year: 50 to 99 are 1950 to 1999
        text = ("19" if text >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _der_element(der: bytes, at: int) -> tuple[int, int, int]:
    """Tag, start and end of the content of the element at this position. The next element is at its end."""
    length, start = der[at + 1], at + 2
    if length >= 0x80:
        start, length = start + (length & 0x7F), int.from_bytes(der[start : start + (length & 0x7F)])
    return der[at], start, start + length


def _names(tls: ServerTls) -> list[str]:
    return [name for name in (tls.certificate_file, tls.key_file, tls.client_ca_file) if name is not None]


def _context(tls: ServerTls, setting: str) -> ssl.SSLContext:
    for name in _names(tls):
        try:
            Path(name).read_bytes()
        except OSError as error:  # OpenSSL does not report the file
            raise ConfigurationError(f"{setting}: {name}: {error.strerror}") from error
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # a resumed session does not present its certificate again
    try:
        # Without a password, OpenSSL would prompt on the terminal for that of an encrypted key, and wait.
        context.load_cert_chain(tls.certificate_file, tls.key_file, password="")
    except OSError as error:
        raise ConfigurationError(
            f"{setting}: {tls.certificate_file} and {tls.key_file} are not a certificate and its key in PEM "
            f"format, without a password: {_reason(error)}"
        ) from error
    if tls.client_ca_file is not None:
        try:
            context.load_verify_locations(cafile=tls.client_ca_file)
        except OSError as error:
            raise ConfigurationError(
                f"{setting}: {tls.client_ca_file} contains no certificate in PEM format: {_reason(error)}"
            ) from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _reason(error: OSError) -> str:
    return getattr(error, "reason", None) or str(error)
