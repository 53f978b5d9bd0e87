"""The version that all parts of a release agree on."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from release import ReleaseError

CHART = Path("charts") / "equipoise"


def members(root: Path) -> list[Path]:
    """The folders of our packages."""
    return sorted(path.parent for path in root.glob("[ls]*/*/pyproject.toml"))


def versions(root: Path) -> Iterator[tuple[str, str]]:
    """Every version in the repository that a release has to agree on, and the file that has it; `none` without one.
    Raises ReleaseError."""
    for path in (root / "pyproject.toml", *(member / "pyproject.toml" for member in members(root))):
        file = str(path.relative_to(root))
        try:
            project = tomllib.loads(path.read_text()).get("project")
        except ValueError as error:
            raise ReleaseError(f"{file} cannot be read: {error}") from None
        yield file, str(project.get("version", "none")) if isinstance(project, dict) else "none"
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
