"""`python -m requirements.release` writes everything that a release consists of to dist/: the wheels, the versions with
hashes, the SBOM of the image, the chart, and the checksums of these.

It needs no network. The same files give the same bytes: archives have a fixed time and order.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from requirements.sbom import ROOT, bill_of_materials

CHART = Path("charts") / "equipoise"
CHECKSUMS = "SHA256SUMS"
_LICENSE = 'license = "Apache-2.0"\n'
_IMAGE = re.compile(r"([\w.:-]+)/([\w./-]+)@(sha256:[0-9a-f]{64})")


class ReleaseError(Exception):
    """The release cannot be built; the message states why."""


def members(root: Path) -> list[Path]:
    """The folders of our packages."""
    return sorted(path.parent for path in root.glob("[ls]*/*/pyproject.toml"))


def versions(root: Path) -> Iterator[tuple[str, str]]:
    """Every version in the repository that a release has to agree on, and the file that has it."""
    for path in (root / "pyproject.toml", *(member / "pyproject.toml" for member in members(root))):
        yield str(path.relative_to(root)), tomllib.loads(path.read_text())["project"]["version"]
    chart = (root / CHART / "Chart.yaml").read_text()
    for key in ("version", "appVersion"):
        found = re.search(rf"^{key}: [\"']?([^\"'\s]+)", chart, re.MULTILINE)
        yield f"{CHART / 'Chart.yaml'} ({key})", found[1] if found else "none"


def release_version(root: Path, tag: str | None = None) -> str:
    """The version of all packages and of the chart. Raises ReleaseError if they differ, or the tag from them."""
    found = dict(versions(root))
    version = found["pyproject.toml"]
    if tag is not None and tag != f"v{version}":
        raise ReleaseError(f"the tag is {tag}, and the version is {version}: the tag must be v{version}")
    if different := [f"{file} has {other}" for file, other in found.items() if other != version]:
        raise ReleaseError(f"pyproject.toml has the version {version}, but {', '.join(different)}")
    return version


def build_wheels(root: Path, out: Path) -> None:
    """One wheel per package, each with the license."""
    uv = os.environ.get("UV") or root / ".tools" / "bin" / "uv"
    with tempfile.TemporaryDirectory() as folder:
        for member in members(root):
            copy = Path(folder) / member.name
            shutil.copytree(member, copy, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
            shutil.copy(root / "LICENSE", copy)
            project = copy / "pyproject.toml"
            project.write_text(project.read_text().replace(_LICENSE, f'{_LICENSE}license-files = ["LICENSE"]\n', 1))
            # uv contains the build backend, so that nothing is fetched.
            command = [uv, "build", "--quiet", "--offline", "--no-index", "--no-sources", "--wheel"]
            subprocess.run([*command, "--out-dir", out, copy], check=True)  # noqa: S603  our own arguments
    (out / ".gitignore").unlink(missing_ok=True)


def package_chart(chart: Path, out: Path, version: str, image: str | None = None) -> Path:
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


def _with_image(values: str, image: str) -> str:
    """The text of values.yaml, comments included, with another default of `image`."""
    parts = _IMAGE.fullmatch(image)
    if parts is None:
        raise ReleaseError(f"{image!r} is not an image with a digest: expected REGISTRY/REPOSITORY@sha256:…")
    for key, value in zip(("registry", "repository", "digest"), parts.groups(), strict=True):
        line = re.compile(rf"^(image:\n(?:  .*\n)*?  {key}: ).*$", re.MULTILINE)
        values, count = line.subn(rf"\g<1>{value}", values)
        if count != 1:
            raise ReleaseError(f"{CHART / 'values.yaml'}: expected one image.{key}, found {count}")
    return values


def build(root: Path, out: Path, tag: str | None = None, image: str | None = None) -> list[Path]:
    """Write all files of the release into `out`, without those of an earlier build. Raises ReleaseError."""
    version = release_version(root, tag)
    if out.exists() and any(out.iterdir()) and not (out / CHECKSUMS).exists():
        raise ReleaseError(
            f"{out} is not emptied, because it has no {CHECKSUMS} of an earlier build: choose another --out"
        )
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    build_wheels(root, out)
    shutil.copy(root / "requirements" / "image.txt", out / f"equipoise-{version}-requirements.txt")
    sbom = json.dumps(bill_of_materials(root), indent=1) + "\n"
    (out / f"equipoise-{version}.cdx.json").write_text(sbom)
    package_chart(root / CHART, out, version, image)
    files = sorted(out.iterdir())
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (out / CHECKSUMS).write_text("".join(lines))
    return [*files, out / CHECKSUMS]


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="python -m requirements.release", description="Build a release.")
    found.add_argument(
        "--out", type=Path, default=ROOT / "dist", help="folder; an earlier build in it is deleted (default: dist)"
    )
    found.add_argument("--tag", help="fail unless this is v and the version of every package and of the chart")
    found.add_argument("--image", help="REGISTRY/REPOSITORY@sha256:…: the pushed image, which the chart will install")
    return found


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        files = build(ROOT, options.out, options.tag, options.image)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for path in files:
        print(f"{path.stat().st_size:>9,}  {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
