"""Certificates by which kube-scheduler and the scorer's extender know each other: an authority, and a pair for each.

The authority is for this alone: whoever it has signed for may ask the scorer. It stays in the folder, so that one side
can be renewed while the other still runs with what it has.
"""

import ipaddress
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from equipoise.cli.exit_codes import InvalidInput

AUTHORITY_DAYS = 3650
"""So long an authority lasts: no certificate can outlive the one that signed it."""

SERVICE_NAMES = (
    "equipoise-scorer.equipoise-system.svc",
    "equipoise-scorer.equipoise-system.svc.cluster.local",
    "equipoise-scorer.equipoise-system",
    "equipoise-scorer",
)
"""What the Service of k8s/base/scorer.yaml is called in a cluster."""

_CLOCK_SKEW = timedelta(minutes=5)
"""A certificate made here and now must not lie in the future of another machine."""

_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*", re.ASCII)
_FILES = ("ca.crt", "ca.key", "server.crt", "server.key", "client.crt", "client.key")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_text(self) -> bytes:
        """PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_text(self) -> bytes:
        """PEM, PKCS #8, without a password."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def new_authority(now: float) -> Pair:
    """An authority that may sign for servers and clients, but make no further authorities. `now` in Unix seconds."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _subject("equipoise extender authority")
    certificate = (
        _builder(name, name, key, now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Pair(certificate=certificate, key=key)


def server_pair(authority: Pair, names: Sequence[str], addresses: Sequence[Address], days: int, now: float) -> Pair:
    """For a server that is asked by one of these names or addresses."""
    alternatives = x509.SubjectAlternativeName([*map(x509.DNSName, names), *map(x509.IPAddress, addresses)])
    return _signed(authority, "equipoise-scorer", ExtendedKeyUsageOID.SERVER_AUTH, days, now, [alternatives])


def client_pair(authority: Pair, days: int, now: float) -> Pair:
    """For who asks: kube-scheduler."""
    return _signed(authority, "kube-scheduler", ExtendedKeyUsageOID.CLIENT_AUTH, days, now, [])


def make_certificates(
    folder: Path, *, names: Sequence[str], addresses: Sequence[str], days: int, force: bool, now: float
) -> str:
    """Write authority, server's and client's pair into `folder`; what to do next, as text.

    `force` renews both pairs with the authority that is there. Raises InvalidInput before anything is written, and
    OSError.
    """
    server_names = [*SERVICE_NAMES, *map(_checked_name, names)]
    server_addresses = [_checked_address(text) for text in addresses]
    if not force and (found := [name for name in _FILES if (folder / name).exists()]):
        raise InvalidInput(
            f"{folder} already has {', '.join(found)}: --force renews the certificates of scorer and kube-scheduler "
            "with the authority that is there; for a new authority choose another folder"
        )
    authority = _authority_of(folder, days, now) or new_authority(now)
    server = server_pair(authority, server_names, server_addresses, days, now)
    client = client_pair(authority, days, now)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, pair in (("ca", authority), ("server", server), ("client", client)):
        _write(folder / f"{name}.key", pair.key_text, 0o600)
        _write(folder / f"{name}.crt", pair.certificate_text, 0o644)
    return _next_steps(folder, server.certificate, authority.certificate)


def _authority_of(folder: Path, days: int, now: float) -> Pair | None:
    """The one in the folder, if there is one. Raises InvalidInput when it cannot sign for so long."""
    certificate_file, key_file = folder / "ca.crt", folder / "ca.key"
    if not certificate_file.exists() and not key_file.exists():
        return None
    try:
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
    except FileNotFoundError as error:
        raise InvalidInput(f"{error.filename} is missing: bring it back, or choose another folder") from None
    except (ValueError, TypeError) as error:  # TypeError: the key has a password
        raise InvalidInput(f"{certificate_file} and {key_file} cannot be read: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise InvalidInput(f"{key_file} is not the key of {certificate_file}: choose another folder")
    if certificate.not_valid_after_utc < _time(now) + timedelta(days=days):
        end = f"{certificate.not_valid_after_utc:%Y-%m-%d}"
        raise InvalidInput(f"the authority in {folder} ends on {end}: give fewer --days, or choose another folder")
    return Pair(certificate=certificate, key=key)


def _signed(
    authority: Pair,
    subject: str,
    purpose: x509.ObjectIdentifier,
    days: int,
    now: float,
    extensions: Iterable[x509.ExtensionType],
) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.certificate
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _builder(_subject(subject), issuer.subject, key, now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return Pair(certificate=builder.sign(authority.key, hashes.SHA256()), key=key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: float, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_time(now) - _CLOCK_SKEW)
        .not_valid_after(_time(now) + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def _checked_name(text: str) -> str:
    name = text.lower()
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"--name {text}: no DNS name; letters, digits and - between dots")
    return name


def _checked_address(text: str) -> Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise InvalidInput(f"--address {text}: no IP address; for a name use --name") from None


def _write(path: Path, content: bytes, mode: int) -> None:
    """In one step, so that a scorer that looks never sees half a file, and never for a moment with a wider mode."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
    new.replace(path)


def _next_steps(folder: Path, server: x509.Certificate, authority: x509.Certificate) -> str:
    def secret(name: str, pair: str) -> str:
        files = {"ca.crt": "ca.crt", "tls.crt": f"{pair}.crt", "tls.key": f"{pair}.key"}
        sources = " ".join(f"--from-file={key}={shlex.quote(str(folder / file))}" for key, file in files.items())
        return (
            f"  kubectl -n equipoise-system create secret generic {name} \\\n"
            f"    {sources} \\\n"
            "    --dry-run=client -o yaml | kubectl apply -f -"
        )

    return "\n".join(
        [
            f"certificates until {server.not_valid_after_utc:%Y-%m-%d}, their authority until "
            f"{authority.not_valid_after_utc:%Y-%m-%d}, in {folder}",
            "",
            "The scorer's side; scorers that run with TLS take it up within two minutes:",
            secret("equipoise-extender-tls", "server"),
            "kube-scheduler's side; it reads its files when it starts:",
            secret("equipoise-extender-client", "client"),
            "A kube-scheduler on the host has ca.crt, client.crt as tls.crt and client.key as tls.key in",
            "/etc/equipoise/extender instead.",
            "",
            "Then switch on scorer.extender.tls in k8s/base/equipoise.yaml and apply it.",
            "Keep ca.key out of the cluster: it signs for everyone that the scorer answers. --force renews both pairs",
            "with it.",
        ]
    )
