"""The Secrets that the pods wait for: their names, and new passwords and certificates for them."""

from collections.abc import Callable, Mapping
from typing import Literal

from equipoise.cli.certificates.issue import CA_DAYS, new_ca, pairs_of
from equipoise.cli.certificates.purposes import EXTENDER, HINTS_WEBHOOK, NATS, Purpose
from equipoise.runtime.bus.permissions import USERS

Part = Literal["passwords", "nats-certificate", "extender-certificates", "hints-webhook-certificate"]

PARTS: tuple[Part, ...] = ("passwords", "nats-certificate", "extender-certificates", "hints-webhook-certificate")

PURPOSES: Mapping[Part, Purpose] = {
    "nats-certificate": NATS,
    "extender-certificates": EXTENDER,
    "hints-webhook-certificate": HINTS_WEBHOOK,
}
"""The parts with certificates."""

PASSWORDS = "equipoise-nats"
DEFAULT_NAMESPACE = "equipoise-system"

Contents = Mapping[str, Mapping[str, bytes]]
"""The data of Secrets, by name and key. The first has what the others depend on."""


def secret_names(part: Part) -> tuple[str, ...]:
    """The names of the Secrets of a part, in the order of their contents."""
    purpose = PURPOSES.get(part)
    return (PASSWORDS,) if purpose is None else tuple(secret.name for secret in purpose.secrets)


def new_contents(part: Part, namespace: str, *, now: float, password: Callable[[], str]) -> Contents:
    """New values for the Secrets of a part, in a namespace. `now` in Unix seconds; `password` returns a new one."""
    purpose = PURPOSES.get(part)
    if purpose is None:
        return {PASSWORDS: {user: password().encode() for user in USERS}}
    return _certificates(purpose, namespace, now)


def _certificates(purpose: Purpose, namespace: str, now: float) -> Contents:
    """The certificates of a new CA, whose key is not kept: nobody can issue another one that is trusted.

    They are therefore valid for as long as the CA.
    """
    ca = new_ca(now, purpose.ca)
    pairs = pairs_of(purpose, ca, names_in(purpose, namespace), purpose.addresses, CA_DAYS, now)
    return {
        secret.name: {
            "ca.crt": ca.certificate_text,
            "tls.crt": pairs[secret.pair].certificate_text,
            "tls.key": pairs[secret.pair].key_text,
        }
        for secret in purpose.secrets
    }


def names_in(purpose: Purpose, namespace: str) -> list[str]:
    """The names of the server, also in another namespace. Those in equipoise-system remain: kube-scheduler verifies
    one of them wherever Equipoise is installed."""
    own = (name.replace(DEFAULT_NAMESPACE, namespace) for name in purpose.names)
    return list(dict.fromkeys((*purpose.names, *own)))
