"""The build of the image of a release, by the recipe of the testbed: the Dockerfile, and buildah.

It is for the architecture of this machine; the matrix of `.github/workflows/release.yml` builds the others.
"""

from pathlib import Path

from equipoise.testbed.binaries.build import BuildError, default_cache
from equipoise.testbed.binaries.toolchain import Progress
from equipoise.testbed.real_nodes.images import Images
from equipoise.testbed.real_nodes.requirements import IMAGES, RealNodesError, check_machine
from release import ReleaseError


def build_image(root: Path, base: str | None = None) -> Path:
    """An archive in the cache, with the image for the architecture of this machine. Raises ReleaseError.

    `base`: the base image with a registry and a digest; None: one that is made of Debian's packages.
    """
    if base is not None and "@sha256:" not in base:
        raise ReleaseError(f"the base image {base!r} has no digest: expected REGISTRY/REPOSITORY@sha256:…")
    try:
        check_machine(IMAGES)
        with Progress() as progress:
            return Images(default_cache(), progress).product(root, base)
    except (RealNodesError, BuildError) as error:
        raise ReleaseError(f"{error}; with --without-image, a release has no image") from None
