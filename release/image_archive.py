"""Archives of images in the layout of OCI (image-spec, image-layout.md)."""

import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from release import ReleaseError

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@dataclass(frozen=True, kw_only=True)
class Image:
    """The image of one architecture, in an archive of its own."""

    archive: Path
    descriptor: dict[str, Any]
    """Media type, digest, size and platform of its manifest."""

    layers: tuple[str, ...]
    """Their digests, from the base to the top."""

    environment: dict[str, str]

    @property
    def architecture(self) -> str:
        return str(self.descriptor["platform"]["architecture"])


def read_image(archive: Path) -> Image:
    """Raises ReleaseError if it is not an archive of exactly one image, or if a part of it was changed."""
    try:
        with tarfile.open(archive) as tar:
            for entry in tar:
                if entry.isfile() and entry.name.startswith("blobs/sha256/"):
                    _check(tar, entry)
            (described,) = json.loads(_read(tar, "index.json"))["manifests"]
            manifest = json.loads(_read(tar, _blob(described["digest"])))
            configuration = json.loads(_read(tar, _blob(manifest["config"]["digest"])))
            layers = tuple(layer["digest"] for layer in manifest["layers"])
            for each in layers:
                tar.getmember(_blob(each))
            environment = dict(each.partition("=")[::2] for each in configuration["config"].get("Env", []))
            platform = {name: configuration[name] for name in ("architecture", "os")}
        descriptor = {name: described[name] for name in ("mediaType", "digest", "size")}
    except (OSError, EOFError, tarfile.TarError, zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReleaseError(f"{archive} is not an OCI archive of one image: {error}") from None
    if descriptor["mediaType"] != MANIFEST:
        raise ReleaseError(f"{archive} is not an OCI archive of one image: it has {descriptor['mediaType']}")
    return Image(
        archive=archive, descriptor={**descriptor, "platform": platform}, layers=layers, environment=environment
    )


def write_archive(images: Sequence[Image], target: Path, version: str) -> str:
    """Write one archive with the image of each architecture, and return the digest of their index.

    The index has the name `version`. The same images give the same bytes.
    """
    ordered = sorted(images, key=lambda image: image.architecture)
    if len({image.architecture for image in ordered}) < len(ordered):
        raise ReleaseError(f"two images are for one architecture: {', '.join(str(each.archive) for each in ordered)}")
    index = json.dumps(
        {"schemaVersion": 2, "mediaType": INDEX, "manifests": [image.descriptor for image in ordered]}
    ).encode()
    digest = f"sha256:{hashlib.sha256(index).hexdigest()}"
    named = {
        "mediaType": INDEX,
        "digest": digest,
        "size": len(index),
        "annotations": {"org.opencontainers.image.ref.name": version},
    }
    with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as tar:
        _add(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        _add(tar, "index.json", json.dumps({"schemaVersion": 2, "manifests": [named]}).encode())
        _add(tar, _blob(digest), index)
        written: set[str] = set()
        for image in ordered:
            with tarfile.open(image.archive) as source:
                blobs = [entry for entry in source if entry.isfile() and entry.name.startswith("blobs/sha256/")]
                for entry in sorted(blobs, key=lambda entry: entry.name):
                    if entry.name not in written:
                        written.add(entry.name)
                        copy = tarfile.TarInfo(entry.name)
                        copy.size, copy.mode = entry.size, 0o644
                        tar.addfile(copy, source.extractfile(entry))
    return digest


def index_digest(archive: Path) -> str:
    """The digest of the index in an archive that `write_archive` has written. Raises ReleaseError."""
    try:
        with tarfile.open(archive) as tar:
            (named,) = json.loads(_read(tar, "index.json"))["manifests"]
            return str(named["digest"])
    except (OSError, EOFError, tarfile.TarError, ValueError, KeyError, TypeError) as error:
        raise ReleaseError(f"{archive} is not an OCI archive of one image: {error}") from None


def read_files(image: Image, names: Collection[str]) -> dict[str, bytes]:
    """Those of the files that the image has, by their paths without a leading slash. Raises ReleaseError."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(image.archive) as tar:
            for layer in image.layers:
                with tarfile.open(fileobj=tar.extractfile(_blob(layer)), mode="r|*") as files:
                    for entry in files:
                        name = entry.name.removeprefix("./")
                        if name in names and entry.isfile() and (file := files.extractfile(entry)):
                            found[name] = file.read()
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise ReleaseError(f"{image.archive} has a layer that cannot be read: {error}") from None
    return found


def _blob(digest: str) -> str:
    """The path in an archive."""
    return f"blobs/{digest.replace(':', '/', 1)}"


def _read(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is not a file")
    return file.read()


def _check(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> None:
    """A blob has the name of its checksum."""
    digest, file = hashlib.sha256(), tar.extractfile(entry)
    while file is not None and (part := file.read(1 << 20)):
        digest.update(part)
    if digest.hexdigest() != entry.name.rpartition("/")[2]:
        raise ValueError(f"{entry.name} was changed")


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o644
    tar.addfile(entry, io.BytesIO(data))
