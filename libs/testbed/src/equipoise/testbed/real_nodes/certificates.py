"""The certificates of a cluster with real nodes: one CA, and a certificate for each component, by openssl."""

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from equipoise.testbed.real_nodes.addresses import API_SERVER_SERVICE, HUB, node_address, node_name

DAYS = "30"
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
_CONFIGURATION = "[req]\ndistinguished_name = name\n[name]\n"
"""A configuration without extensions: those of the system's file would make every certificate a CA."""

_CA = ("basicConstraints=critical,CA:true", "keyUsage=critical,keyCertSign,cRLSign", "subjectKeyIdentifier=hash")
_LEAF = (
    "basicConstraints=critical,CA:false",
    "keyUsage=critical,digitalSignature",
    "extendedKeyUsage=clientAuth,serverAuth",
    "subjectKeyIdentifier=hash",
    "authorityKeyIdentifier=keyid",
)
"""The extensions that strict clients require (RFC 5280), such as Python from 3.13 on."""


@dataclass(frozen=True, kw_only=True)
class ClusterCertificates:
    """A folder with `<name>.crt` and `<name>.key` of each certificate."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    def certificate(self, name: str) -> Path:
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.folder / f"{name}.key"


def create_certificates(folder: Path, nodes: int) -> ClusterCertificates:
    """The certificates of the API server, its requests to kubelets, kube-proxy, and each kubelet as client and server.

    The API server takes `apiserver.crt` from its `--cert-dir`. The file also contains the CA, so that clients that
    trust the file, as if it were self-signed, trust every certificate of the CA.
    """
    folder.mkdir(parents=True, exist_ok=True)
    created = ClusterCertificates(folder=folder)
    _request(folder, "ca", "/CN=equipoise-testbed", _CA)
    names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")
    _sign(
        created,
        "apiserver",
        "/CN=kube-apiserver",
        [*(f"IP:{address}" for address in (HUB, "127.0.0.1", API_SERVER_SERVICE)), *(f"DNS:{name}" for name in names)],
    )
    created.certificate("apiserver").write_text(created.certificate("apiserver").read_text() + created.ca.read_text())
    _sign(created, "kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client")
    _sign(created, "kube-proxy", "/CN=system:kube-proxy")
    for number in range(1, nodes + 1):
        name = node_name(number)
        _sign(created, f"{name}-client", f"/O=system:nodes/CN=system:node:{name}")
        _sign(created, f"{name}-server", f"/O=system:nodes/CN=system:node:{name}", [f"IP:{node_address(number)}"])
    return created


def _sign(created: ClusterCertificates, name: str, subject: str, alternatives: list[str] | None = None) -> None:
    added = [f"subjectAltName={','.join(alternatives)}"] if alternatives else []
    _request(created.folder, name, subject, (*_LEAF, *added), "-CA", created.ca, "-CAkey", created.key("ca"))


def _request(folder: Path, name: str, subject: str, extensions: Iterable[str], *signer: str | Path) -> None:
    configuration = folder / "openssl.conf"
    configuration.write_text(_CONFIGURATION)
    added = [word for extension in extensions for word in ("-addext", extension)]
    files = ("-config", configuration, "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt")
    command: list[str | Path] = ["openssl", "req", "-x509", *_KEY, "-days", DAYS, "-subj", subject, *added]
    subprocess.run([*command, *signer, *files], check=True, capture_output=True)
