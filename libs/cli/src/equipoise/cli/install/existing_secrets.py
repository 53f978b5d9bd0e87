"""Checks Secrets that exist before an installation, such as those of an earlier one.

The Job `equipoise-prepare` keeps them, and may not read them: pods would wait for what they lack until Helm gives up.
"""

import base64
from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from equipoise.cli.bus.access import SECRETS
from equipoise.cli.doctor.environment import Finding
from equipoise.cli.prepare.secret_contents import PARTS, Part, secret_names
from equipoise.runtime.bus.permissions import STANDARD_USERS
from equipoise.runtime.kubernetes.client import Kube, find

CERTIFICATE_KEYS = ("ca.crt", "tls.crt", "tls.key")

OTHER_SECRETS: Mapping[Part, Collection[str]] = {
    "passwords": ("nats.enabled", "nats.existingSecret"),
    "nats-certificate": ("nats.enabled", "nats.tls.existingSecret", "certManager.enabled"),
    "extender-certificates": ("extender.tls.existingSecret", "extender.tls.clientSecret", "certManager.enabled"),
    "hints-webhook-certificate": ("certManager.enabled",),
}
"""The values with which other Secrets are used than those of a part, or none."""


async def existing_secrets(kube: Kube, namespace: str, given: Collection[str], now: float) -> list[Finding]:
    """A warning for each Secret in the namespace that pods cannot use. `given`: the names of values of the chart.

    Raises KubeError.
    """
    findings = []
    for part in PARTS:
        if not set(OTHER_SECRETS[part]).isdisjoint(given):
            continue
        required = required_keys(part, given)
        for name in secret_names(part):
            secret = await find(kube, SECRETS, name, namespace)
            if secret is not None and (problem := secret_problem(secret.data or {}, required, now)):
                together = " ".join(secret_names(part))
                fix = f"correct it, or have it created: kubectl -n {namespace} delete secret {together}"
                findings.append(Finding("warning", "secret", f"Secret {name} exists, and {problem}", fix))
    return findings


def required_keys(part: Part, given: Collection[str]) -> tuple[str, ...]:
    """The keys that a Secret of a part must have."""
    if part != "passwords":
        return CERTIFICATE_KEYS
    return (*STANDARD_USERS, "reclaimer") if "reclaimer.enabled" in given else STANDARD_USERS


def secret_problem(data: Mapping[str, str], required: Collection[str], now: float) -> str:
    """Why pods cannot use a Secret with these contents, in base64; empty if they can."""
    from cryptography.x509 import load_pem_x509_certificate

    missing = [key for key in required if not data.get(key)]
    if missing:
        return f"has no {', '.join(missing)}: pods would wait for it"
    if "tls.crt" not in required:
        return ""
    try:
        end = load_pem_x509_certificate(base64.b64decode(data["tls.crt"])).not_valid_after_utc
    except ValueError as error:
        return f"its tls.crt is no certificate in PEM format: {error}"
    return "" if datetime.fromtimestamp(now, UTC) < end else f"its certificate has expired on {end:%Y-%m-%d}"
