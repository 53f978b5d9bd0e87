"""Small archives of images, as buildah writes them."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
DEBIAN = {
    "usr/lib/os-release": 'ID=debian\nVERSION_ID="13"\n',
    "var/lib/dpkg/status": (
        "Package: libc6\nStatus: install ok installed\nSource: glibc (2.41-12+b1)\nVersion: 2.41-12\n"
        "Architecture: amd64\nDescription: C library\n .\n Package: no field\n\n"
        "Package: base-files\nStatus: install ok installed\nVersion: 1:13.8+deb13u8\nArchitecture: amd64\n\n"
        "Package: removed\nStatus: deinstall ok config-files\nVersion: 1\nArchitecture: all\n\n"
    ),
}


def write_tar(files: Mapping[str, bytes]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return data.getvalue()


def write_image(
    path: Path, layers: Sequence[Mapping[str, str]] = (DEBIAN,), *, architecture: str = "amd64", python: str = ""
) -> Path:
    blobs = {}

    def blob(data: bytes, media_type: str) -> dict[str, str | int]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    environment = ["PATH=/usr/bin", *([f"PYTHON_VERSION={python}"] if python else [])]
    configuration = {"architecture": architecture, "os": "linux", "config": {"Env": environment}}
    archives = [
        gzip.compress(write_tar({name: text.encode() for name, text in layer.items()}), mtime=0) for layer in layers
    ]
    manifest = {
        "schemaVersion": 2,
        "config": blob(json.dumps(configuration).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": [blob(each, "application/vnd.oci.image.layer.v1.tar+gzip") for each in archives],
    }
    index = {"schemaVersion": 2, "manifests": [blob(json.dumps(manifest).encode(), MANIFEST)]}
    path.write_bytes(write_tar({**blobs, "index.json": json.dumps(index).encode()}))
    return path
