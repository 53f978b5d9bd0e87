"""The TLS files of a server of Equipoise."""

from equipoise.contracts.configuration.settings import Section


class ServerTls(Section, frozen=True, kw_only=True):
    """The files for TLS, in PEM format. Changes are loaded within seconds. `equipoise certificates` creates them."""

    certificate_file: str
    key_file: str

    client_ca_file: str | None = None
    """The CA that must have issued the certificates of callers; null to accept any caller."""
