"""The build of a release: one folder with all of its files.

It needs no network. The same files give the same bytes: archives have a fixed time and order.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from requirements.sbom import bill_of_materials

from release import ReleaseError
from release.base_packages import base_components
from release.chart import package_chart, published_image
from release.image_archive import Image, read_image, write_archive
from release.packages import build_packages
from release.signature import KEY_VARIABLE, new_key, sign
from release.verification import CHECKSUMS, REHEARSAL_KEY, write_checksums
from release.versions import CHART, release_version


def build(
    root: Path,
    out: Path,
    *,
    tag: str | None = None,
    archives: Callable[[], Sequence[Path]] = tuple,
    repository: str | None = None,
    private_key: str = "",
) -> list[Path]:
    """Write all files of the release into `out`, without those of an earlier build. Raises ReleaseError.

    `archives`: makes the image, an archive for each architecture, after all else was checked; without archives, the
    release has no image. `repository`: where the image will be published, with its registry. `private_key`: see
    `sign`; empty: a new one, of which `out` gets the public key.
    """
    if repository is not None and not private_key:
        raise ReleaseError(f"a release with a published image needs the key for its signature: set {KEY_VARIABLE}")
    version = release_version(root, tag)
    _check_is_ours(out)
    _bill_of_materials(root, [])
    images = [read_image(archive) for archive in archives()]
    if repository is not None and not images:
        raise ReleaseError("a release that names the repository of its image needs the archives of the image")
    sbom = _bill_of_materials(root, images)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    build_packages(root, out)
    shutil.copy(root / "requirements" / "image.txt", out / f"equipoise-{version}-requirements.txt")
    (out / f"equipoise-{version}.cdx.json").write_text(sbom)
    image = None
    if images:
        digest = write_archive(images, out / f"equipoise-{version}-image.tar", version)
        image = published_image(repository, digest)
    package_chart(root / CHART, out, version, image)
    public_key = sign(write_checksums(out), private_key or new_key())
    if not private_key:
        (out / REHEARSAL_KEY).write_text(f"{public_key}\n")
    return sorted(out.iterdir())


def _bill_of_materials(root: Path, images: Sequence[Image]) -> str:
    """The SBOM as text. Raises ReleaseError."""
    base = base_components(images)
    try:
        return json.dumps(bill_of_materials(root, base), indent=1) + "\n"
    except ValueError as error:
        raise ReleaseError(f"no SBOM can be made: {error}. `make lock` writes requirements/image.txt anew") from None


def _check_is_ours(out: Path) -> None:
    """What an earlier build has not written is not deleted."""
    if out.exists() and any(out.iterdir()) and not (out / CHECKSUMS).exists():
        raise ReleaseError(
            f"{out} is not emptied, because it has no {CHECKSUMS} of an earlier build: choose another --out"
        )
