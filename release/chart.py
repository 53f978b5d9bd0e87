"""The package of the Helm chart."""

import gzip
import io
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path

import yaml

from release import ReleaseError
from release.versions import CHART

_REPOSITORY = re.compile(r"([a-z0-9-]+(?:\.[a-z0-9-]+)+(?::\d+)?|[a-z0-9-]+:\d+|localhost)/([a-z0-9._/-]+)")
_EMPTY = "''"
REPOSITORY = "equipoise"
"""The repository of the image in the chart as it is in the source, without a registry."""


@dataclass(frozen=True, kw_only=True)
class ImageReference:
    """An image by its digest, as the values of the chart have it."""

    registry: str = ""
    repository: str = REPOSITORY
    digest: str

    @property
    def name(self) -> str:
        """The image without its digest; containerd completes a name without a registry like this."""
        return f"{self.registry}/{self.repository}" if self.registry else f"docker.io/library/{self.repository}"


def published_image(repository: str | None, digest: str) -> ImageReference:
    """`repository`: with its registry; None: the image is in no registry. Raises ReleaseError."""
    if repository is None:
        return ImageReference(digest=digest)
    if (parts := _REPOSITORY.fullmatch(repository)) is None:
        raise ReleaseError(f"{repository!r} is not a repository of images: expected REGISTRY/REPOSITORY, without a tag")
    return ImageReference(registry=parts[1], repository=parts[2], digest=digest)


def package_chart(chart: Path, out: Path, version: str, image: ImageReference | None = None) -> Path:
    """As `helm package` does, which writes the current time; `image` becomes its default image."""
    target = out / f"{chart.name}-{version}.tgz"
    with (
        target.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as archive,
    ):
        for path in sorted(path for path in chart.rglob("*") if path.is_file()):
            data = path.read_bytes()
            if image is not None and path == chart / "values.yaml":
                data = _with_image(data.decode(), image).encode()
            entry = tarfile.TarInfo(str(Path(chart.name) / path.relative_to(chart)))
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return target


def chart_image(package: Path) -> ImageReference:
    """The default image of a packaged chart. Raises ReleaseError if it has no digest."""
    with tarfile.open(package) as archive:
        (values,) = (each for each in archive if each.name.count("/") == 1 and each.name.endswith("/values.yaml"))
        file = archive.extractfile(values)
        assert file is not None
        found = yaml.safe_load(file)["image"]
    image = ImageReference(registry=found["registry"], repository=found["repository"], digest=found["digest"])
    if not image.digest:
        raise ReleaseError(f"{package} does not name its image by digest: build the release with an image")
    return image


def _with_image(values: str, image: ImageReference) -> str:
    """The text of values.yaml, comments included, with another default of `image`."""
    for key in ("registry", "repository", "digest"):
        line = re.compile(rf"^(image:\n(?:  .*\n)*?  {key}: ).*$", re.MULTILINE)
        values, count = line.subn(rf"\g<1>{getattr(image, key) or _EMPTY}", values)
        if count != 1:
            raise ReleaseError(f"{CHART / 'values.yaml'}: expected one image.{key}, found {count}")
    return values
