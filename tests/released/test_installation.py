"""An installation from the files of a release alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from deployment.base import ROOT
from deployment.helm import CHART
from release import ReleaseError
from release.chart import package_chart, published_image
from release.image_archive import read_image, write_archive
from release.installation import install_release
from release.signature import new_key, sign
from release.verification import REHEARSAL_KEY, write_checksums
from released.oci import write_image
from testbed.real_nodes.machines import machine_state

from equipoise.testbed.real_nodes.leftovers import PREFIX
from equipoise.testbed.real_nodes.requirements import RealNodesError, check_machine

SECONDS = 2_700
"""The time for a first run beside other work, with an empty cache."""


def signed(folder: Path) -> Path:
    """The public key."""
    public_key = sign(write_checksums(folder), new_key())
    (folder / REHEARSAL_KEY).write_text(public_key)
    return folder / REHEARSAL_KEY


def test_a_release_without_an_image_is_refused(tmp_path: Path) -> None:
    package_chart(CHART, tmp_path, "0.1.0")

    with pytest.raises(ReleaseError, match=r"has 0 files that end in -image\.tar, expected one"):
        install_release(tmp_path, signed(tmp_path), 1)


def test_a_chart_that_installs_another_image_is_refused(tmp_path: Path) -> None:
    """Nodes would look for it in a registry."""
    folder = tmp_path / "dist"
    folder.mkdir()
    write_archive([read_image(write_image(tmp_path / "image.tar"))], folder / "equipoise-0.1.0-image.tar", "0.1.0")
    package_chart(CHART, folder, "0.1.0", published_image(None, f"sha256:{'0' * 64}"))

    with pytest.raises(ReleaseError, match=r"equipoise-0\.1\.0\.tgz installs another image than"):
        install_release(folder, signed(folder), 1)


@pytest.mark.weekly
@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.usefixtures("testbed_binaries")
def test_a_release_is_installed_on_real_nodes_from_its_files_alone(tmp_path: Path) -> None:
    """Takes minutes: it builds the image, and two kubelets start the chart. Nothing remains on the machine."""
    try:
        check_machine()
    except RealNodesError as error:
        pytest.skip(str(error))

    release("build", "--out", tmp_path / "dist")
    output, pid = release("install", tmp_path / "dist", "--key", tmp_path / "dist" / REHEARSAL_KEY, "--nodes", "2")

    installed = json.loads(output.splitlines()[-1])
    ours = installed["containers"].pop(installed["image"])
    assert ours >= 10, "two replicas of five services"
    assert sum(installed["containers"].values()) == 1, "NATS"
    assert not [name for names in machine_state().values() for name in names if f"{PREFIX}-{pid}-" in name]


def release(*arguments: str | Path) -> tuple[str, int]:
    """The standard output and the number of the process."""
    command = [sys.executable, "-m", "release", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        output, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors
    return output, process.pid
