"""The files that the image is built from."""

import shutil
from pathlib import Path

from deployment.base import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()


def docker_context(folder: Path) -> Path:
    """Copies into `folder` what .dockerignore leaves: it excludes all but the paths after an exclamation mark."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    for path in (line[1:] for line in lines if line.startswith("!")):
        shutil.copytree(ROOT / path, folder / path, ignore=shutil.ignore_patterns("__pycache__"))
    return folder
