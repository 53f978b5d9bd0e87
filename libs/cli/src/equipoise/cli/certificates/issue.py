"""TLS certificates: a CA, a certificate with its key for a server and, if the server verifies its client, for the
client.

The CA has no other use. It stays in the folder, so that one side can be renewed while the other keeps its certificate.
"""

import ipaddress
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from equipoise.cli.certificates.purposes import Address, Purpose
from equipoise.cli.exit_codes import InvalidInput

CA_DAYS = 3650
"""Days for which the CA is valid. No certificate can be valid for longer."""

_CLOCK_SKEW = timedelta(minutes=5)
"""The start of validity lies this far in the past, for machines whose clock is behind."""

_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class CertificatePair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_text(self) -> bytes:
        """The certificate as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_text(self) -> bytes:
        """The key as PEM (PKCS #8), without a password."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def new_ca(now: float, subject: str = "equipoise CA") -> CertificatePair:
    """A CA that may sign certificates, but no further CAs. `now` in Unix seconds."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _subject(subject)
    certificate = (
        _builder(name, name, key, now, CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return CertificatePair(certificate=certificate, key=key)


def server_pair(
    ca: CertificatePair,
    names: Sequence[str],
    addresses: Sequence[Address],
    days: int,
    now: float,
    subject: str = "server",
) -> CertificatePair:
    """The certificate and key of a server with these names and addresses."""
    alternatives = x509.SubjectAlternativeName([*map(x509.DNSName, names), *map(x509.IPAddress, addresses)])
    return _signed(ca, subject, ExtendedKeyUsageOID.SERVER_AUTH, days, now, [alternatives])


def client_pair(ca: CertificatePair, days: int, now: float, subject: str = "client") -> CertificatePair:
    return _signed(ca, subject, ExtendedKeyUsageOID.CLIENT_AUTH, days, now, [])


def pairs_of(
    purpose: Purpose, ca: CertificatePair, names: Sequence[str], addresses: Sequence[Address], days: int, now: float
) -> dict[str, CertificatePair]:
    """The pair `server` with these names and addresses and, if the purpose has a client, the pair `client`."""
    pairs = {"server": server_pair(ca, names, addresses, days, now, purpose.server)}
    if purpose.client is not None:
        pairs["client"] = client_pair(ca, days, now, purpose.client)
    return pairs


def make_certificates(
    folder: Path,
    purpose: Purpose,
    *,
    names: Sequence[str],
    addresses: Sequence[str],
    days: int,
    force: bool,
    now: float,
) -> str:
    """Write the CA and the pairs to `folder`; returns instructions for their installation.

    `names` and `addresses` of the server are added to those of the purpose. `force` renews the pairs with the existing
    CA. Raises InvalidInput before anything is written, and OSError.
    """
    server_names = [*purpose.names, *map(_checked_name, names)]
    server_addresses = [*purpose.addresses, *(_checked_address(text) for text in addresses)]
    if not force and (files := [name for name in purpose.files if (folder / name).exists()]):
        raise InvalidInput(
            f"{folder} already has {', '.join(files)}: use --force to renew the certificates with the existing CA, or "
            "another folder for a new CA"
        )
    ca = _existing_ca(folder, purpose, days, now) or new_ca(now, purpose.ca)
    pairs = {"ca": ca} | pairs_of(purpose, ca, server_names, server_addresses, days, now)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, pair in pairs.items():
        _write(folder / f"{name}.key", pair.key_text, 0o600)
        _write(folder / f"{name}.crt", pair.certificate_text, 0o644)
    ends = {name: f"{pair.certificate.not_valid_after_utc:%Y-%m-%d}" for name, pair in pairs.items()}
    return (
        f"created in {folder}: certificates valid until {ends['server']}, CA until {ends['ca']}\n\n"
        + purpose.next_steps(folder)
    )


def _existing_ca(folder: Path, purpose: Purpose, days: int, now: float) -> CertificatePair | None:
    """The CA in the folder, if there is one. Raises InvalidInput if it expires too early, or was created for another
    purpose."""
    certificate_file, key_file = folder / "ca.crt", folder / "ca.key"
    if not certificate_file.exists() and not key_file.exists():
        return None
    try:
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
    except FileNotFoundError as error:
        raise InvalidInput(f"{error.filename} is missing: restore it, or use another folder") from None
    except (ValueError, TypeError) as error:  # TypeError: the key has a password
        raise InvalidInput(f"{certificate_file} and {key_file} cannot be read: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise InvalidInput(f"{key_file} is not the key of {certificate_file}: use another folder")
    if certificate.subject != _subject(purpose.ca):
        raise InvalidInput(f"{certificate_file} is not the {purpose.ca}: use another folder")
    if certificate.not_valid_after_utc < _time(now) + timedelta(days=days):
        end = f"{certificate.not_valid_after_utc:%Y-%m-%d}"
        raise InvalidInput(f"the CA in {folder} expires on {end}: use fewer --days, or another folder")
    return CertificatePair(certificate=certificate, key=key)


def _signed(
    ca: CertificatePair,
    subject: str,
    purpose: x509.ObjectIdentifier,
    days: int,
    now: float,
    extensions: Iterable[x509.ExtensionType],
) -> CertificatePair:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = ca.certificate
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
    return CertificatePair(certificate=builder.sign(ca.key, hashes.SHA256()), key=key)


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
        raise InvalidInput(f"--name {text}: not a DNS name (letters, digits and - between dots)")
    return name


def _checked_address(text: str) -> Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise InvalidInput(f"--address {text}: not an IP address; use --name for a name") from None


def _write(path: Path, content: bytes, mode: int) -> None:
    """Writes the file atomically: a scorer that watches it never reads a part of it, and the file never has more
    permissions than `mode`."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
    new.replace(path)
