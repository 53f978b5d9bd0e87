"""The other build of `mixed_versions`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults.catalog.versions import OTHER_BUILD, sources_of
from faults.rig import Inconclusive


def test_a_commit_that_is_not_in_the_history_proves_nothing(tmp_path: Path) -> None:
    """The run is inconclusive, and names the commit and the option."""
    with pytest.raises(Inconclusive, match=r"commit 0123abc cannot be exported .*--other-build"):
        sources_of("0123abc", tmp_path)


def test_programs_of_the_other_build_use_its_modules(tmp_path: Path) -> None:
    """All of them, also those that the current build has too."""
    try:
        sources = sources_of(OTHER_BUILD, tmp_path)
    except Inconclusive as error:
        pytest.skip(str(error))  # an export of the repository has no history
    modules = ("equipoise.binder.service", "equipoise.descheduler.service", "equipoise.runtime.bus.codec")
    script = f"import {', '.join(modules)}\nimport sys\nfor name in {modules!r}: print(sys.modules[name].__file__)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sources)}
    found = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(found.stdout.splitlines()) == len(modules)
    assert all(file.startswith(str(tmp_path)) for file in found.stdout.splitlines())
