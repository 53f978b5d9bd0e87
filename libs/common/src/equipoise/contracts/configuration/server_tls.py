"""The TLS files of a server of Equipoise."""

from equipoise.contracts.configuration.settings import Section


class ServerTls(Section, frozen=True, kw_only=True):
    """Files in PEM format; changes are loaded within seconds. `equipoise certificates` creates them."""

    certificate_file: str
    key_file: str

    client_ca_file: str | None = None
    """The authority whose certificates callers must have; null: any caller is accepted."""
