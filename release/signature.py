"""The signature of the checksums, by `ssh-keygen -Y` (docs/decisions/0062 compares it with other tools)."""

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from release import ReleaseError

NAMESPACE = "equipoise-release"
"""The purpose that is signed with the data: a signature that the same key made for another one is not valid here."""

KEY_VARIABLE = "EQUIPOISE_RELEASE_KEY"
"""The environment variable with the private key."""

SUFFIX = ".sig"
_PUBLIC_KEY = re.compile(r"((?:ssh|ecdsa|sk)-[\w@.-]+ [A-Za-z0-9+/=]+)( .*)?")
_SIGNER = re.compile(r"signature with \S+ key (SHA256:\S+)")


def new_key() -> str:
    """A private key, for a release that nobody should trust."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "key"
        _run(["-q", "-t", "ed25519", "-N", "", "-C", "rehearsal", "-f", file])
        return file.read_text()


def sign(file: Path, private_key: str) -> str:
    """Write the signature beside the file, and return the public key.

    `private_key`: the contents of an OpenSSH key file without a passphrase. Nothing of it is part of an error, and no
    file with it remains.
    """
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder) / "key"
        key.touch(mode=0o600)
        # Where secrets are kept, the last line break is often lost, and ssh-keygen requires it.
        key.write_text("\n".join(private_key.strip().splitlines()) + "\n")
        file.with_name(file.name + SUFFIX).unlink(missing_ok=True)
        public = _run(["-y", "-P", "", "-f", key])
        if public.returncode or _run(["-Y", "sign", "-n", NAMESPACE, "-f", key, file]).returncode:
            raise ReleaseError(
                f"{KEY_VARIABLE} is not a private key of OpenSSH without a passphrase: "
                "set it to the whole contents of the file that `ssh-keygen -t ed25519` writes"
            )
    return public.stdout.decode().strip()


def verify(file: Path, public_key: Path) -> None:
    """Raises ReleaseError unless the signature beside the file is by this key.

    `public_key`: a file with one line, as `ssh-keygen` writes it.
    """
    signature = file.with_name(file.name + SUFFIX)
    key = _public_key(public_key)
    if not signature.is_file():
        raise ReleaseError(f"{signature} is missing: without it nobody knows who made these files, do not use them")
    data = file.read_bytes()
    found = _run(["-Y", "check-novalidate", "-n", NAMESPACE, "-s", signature], data)
    if found.returncode:
        raise ReleaseError(f"{signature} is no signature of {file}: one of them was changed, do not use these files")
    with tempfile.NamedTemporaryFile("w") as allowed:
        allowed.write(f"release {key}\n")
        allowed.flush()
        if _run(
            ["-Y", "verify", "-n", NAMESPACE, "-I", "release", "-f", allowed.name, "-s", signature], data
        ).returncode:
            signer = _SIGNER.search(found.stdout.decode())
            raise ReleaseError(
                f"{file} is signed by another key ({signer[1] if signer else 'unknown'}) than {public_key}: "
                "do not use these files, unless that file has the wrong key"
            )


def _public_key(file: Path) -> str:
    """Its type and value. Options of a key, such as `cert-authority`, are not accepted."""
    try:
        lines = [line for line in file.read_text().splitlines() if line.strip() and not line.startswith("#")]
    except (OSError, UnicodeDecodeError) as error:
        raise ReleaseError(f"the public key {file} cannot be read: {error}") from None
    found = _PUBLIC_KEY.fullmatch(lines[0]) if len(lines) == 1 else None
    if found is None:
        raise ReleaseError(f"{file} is not a public key of OpenSSH: expected one line such as `ssh-ed25519 AAAA…`")
    return found[1]


def _run(arguments: Sequence[str | Path], data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """ssh-keygen without an agent and without a terminal on which it would ask for a passphrase."""
    try:
        return subprocess.run(  # noqa: S603  our own arguments
            ["ssh-keygen", *arguments],  # noqa: S607  wherever it is installed
            input=data,
            capture_output=True,
            check=False,
            env={"PATH": os.environ.get("PATH", os.defpath)},
            start_new_session=True,
        )
    except FileNotFoundError:
        raise ReleaseError(
            "ssh-keygen is not installed: install the client of OpenSSH (Debian: openssh-client)"
        ) from None
