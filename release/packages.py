"""The Python packages of a release."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from release import ReleaseError
from release.versions import members

_LICENSE = 'license = "Apache-2.0"\n'


def build_packages(root: Path, out: Path) -> None:
    """A wheel and a source distribution per package, each with the license. Raises ReleaseError.

    The same sources give the same bytes.
    """
    uv = os.environ.get("UV") or root / ".tools" / "bin" / "uv"
    with tempfile.TemporaryDirectory() as folder:
        for member in members(root):
            copy = Path(folder) / member.name
            shutil.copytree(member, copy, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
            shutil.copy(root / "LICENSE", copy)
            project = copy / "pyproject.toml"
            project.write_text(project.read_text().replace(_LICENSE, f'{_LICENSE}license-files = ["LICENSE"]\n', 1))
            # uv contains the build backend, so that nothing is fetched.
            command = [uv, "build", "--quiet", "--offline", "--no-index", "--no-sources"]
            if subprocess.run([*command, "--out-dir", out, copy], check=False).returncode:  # noqa: S603  our own arguments
                raise ReleaseError(f"the package in {member} was not built: the reason is above")
    (out / ".gitignore").unlink(missing_ok=True)
