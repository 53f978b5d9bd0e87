"""The packages of the base image as components of the SBOM: those that dpkg lists, and Python."""

from collections.abc import Iterable, Iterator
from email import message_from_string
from email.message import Message
from typing import Any
from urllib.parse import quote

from release import ReleaseError
from release.image_archive import Image, read_files

_STATUS = "var/lib/dpkg/status"
_SYSTEM = "usr/lib/os-release"


def base_components(images: Iterable[Image]) -> list[dict[str, Any]]:
    """The components of the bases of all images, each once, by package URL. Raises ReleaseError."""
    found = {each["bom-ref"]: each for image in images for each in _components(image)}
    return [found[reference] for reference in sorted(found)]


def _components(image: Image) -> Iterator[dict[str, Any]]:
    files = read_files(image, (_STATUS, _SYSTEM))
    system = dict(line.replace('"', "").partition("=")[::2] for line in files.get(_SYSTEM, b"").decode().splitlines())
    packages = [package for package in _stanzas(files.get(_STATUS, b"").decode()) if _is_installed(package)]
    if not packages or "ID" not in system:
        raise ReleaseError(
            f"{image.archive} has no packages in /{_STATUS}, or no /{_SYSTEM}: build it from a base of Debian"
        )
    distribution = f"{system['ID']}-{system.get('VERSION_ID', 'unknown')}"
    for package in packages:
        yield _packaged(package, distribution)
    if version := image.environment.get("PYTHON_VERSION"):  # compiled for the image, so that dpkg does not list it
        yield _component("python", version, f"pkg:generic/python@{quote(version)}")


def _stanzas(text: str) -> Iterator[Message]:
    """The paragraphs of a control file, which have the syntax of the header of a mail (deb822)."""
    return (message_from_string(stanza) for stanza in text.split("\n\n") if stanza.strip())


def _is_installed(package: Message) -> bool:
    return (package["Status"] or "").endswith(" installed")


def _packaged(package: Message, distribution: str) -> dict[str, Any]:
    """`upstream` names the source package, by which security advisories are found."""
    name, version, vendor = package["Package"], package["Version"], distribution.partition("-")[0]
    source, _, source_version = package.get("Source", name).partition(" ")
    upstream = source + (f"@{source_version.strip('()')}" if source_version else "")
    qualifiers = {"arch": package["Architecture"], "distro": distribution}
    if upstream != name:
        qualifiers["upstream"] = upstream
    encoded = "&".join(f"{key}={quote(value, safe='')}" for key, value in sorted(qualifiers.items()))
    return _component(name, version, f"pkg:deb/{vendor}/{quote(name, safe='')}@{quote(version, safe='')}?{encoded}")


def _component(name: str, version: str, package_url: str) -> dict[str, Any]:
    return {"type": "library", "bom-ref": package_url, "name": name, "version": version, "purl": package_url}
