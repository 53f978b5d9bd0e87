"""The workflows of .github: no action, permission or input that can be changed by somebody else."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from deployment.base import ROOT
from programs import program
from release.__main__ import parser
from release.signature import KEY_VARIABLE

from equipoise.testbed.binaries.build import ACTIONLINT

FILES = sorted((ROOT / ".github" / "workflows").glob("*"))
RELEASE = ROOT / ".github" / "workflows" / "release.yml"
PERMISSIONS = {
    "ci.yml": {"test": {"contents": "read"}},
    "release.yml": {
        "test": {"contents": "read"},
        "check": {"contents": "read"},
        "image": {"contents": "read"},
        "publish": {"attestations": "write", "contents": "write", "id-token": "write", "packages": "write"},
        "packages": {"contents": "read", "id-token": "write"},
    },
}
"""What each job needs, and no more."""


def workflow(path: Path) -> dict[Any, Any]:
    document: dict[Any, Any] = yaml.safe_load(path.read_text())
    return document


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in workflow(path)["jobs"].values():
        yield from job.get("steps", [])


def scripts(path: Path) -> list[str]:
    return [step["run"] for step in steps(path) if "run" in step]


@pytest.mark.timeout(600)  # only for the first build of actionlint
def test_the_workflows_are_correct(tmp_path: Path) -> None:
    """Fields, types of expressions, and what jobs have of one another; an error is found."""
    actionlint = program(ACTIONLINT)

    def lint(*files: Path) -> subprocess.CompletedProcess[str]:
        command = [actionlint, "-shellcheck=", "-pyflakes=", *files]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)

    assert (0, "") == (lint(*FILES).returncode, lint(*FILES).stdout)
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(RELEASE.read_text().replace("steps.image.outputs", "steps.absent.outputs"))
    assert 'property "absent" is not defined' in lint(wrong).stdout


def test_there_are_no_other_workflows() -> None:
    assert [path.name for path in FILES] == list(PERMISSIONS)


def test_every_action_is_pinned_by_its_commit() -> None:
    """A tag can be moved. The comment is the version of the commit; an action has one version everywhere."""
    pinned: dict[str, set[tuple[str, str]]] = {}
    for path in FILES:
        for line in re.findall(r"uses: (.*)", path.read_text()):
            if line != "./.github/workflows/ci.yml":
                match = re.fullmatch(r"([\w-]+/[\w-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)", line)
                assert match, f"{path.name}: {line}"
                pinned.setdefault(match[1], set()).add((match[2], match[3]))

    assert len(pinned) == 5
    assert [name for name, found in pinned.items() if len(found) > 1] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_job_has_the_least_permissions(path: Path) -> None:
    """None by default; a test of a pull request can write nothing."""
    document = workflow(path)

    assert document["permissions"] == {}
    assert {name: job["permissions"] for name, job in document["jobs"].items()} == PERMISSIONS[path.name]


def test_only_a_tag_of_a_version_publishes() -> None:
    """PyYAML reads the key `on` as true."""
    assert workflow(RELEASE)[True] == {"push": {"tags": ["v*"]}}
    assert all(job["environment"] for name, job in workflow(RELEASE)["jobs"].items() if name in ("publish", "packages"))
    needs = {name: job.get("needs", []) for name, job in workflow(RELEASE)["jobs"].items()}
    assert needs == {"test": [], "check": [], "image": ["test", "check"], "publish": "image", "packages": "publish"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_is_inserted_into_a_script(path: Path) -> None:
    """A name of a branch or tag in `${{ }}` would run as code; a variable does not."""
    assert [script for script in scripts(path) if "${{" in script] == []
    assert set(re.findall(r"\$\{\{ *(\w+)", path.read_text())) <= {"github", "matrix", "needs", "secrets", "steps"}


def test_the_only_secret_is_the_key_of_the_step_that_signs() -> None:
    """After an approval: its job has the environment `release`."""
    publish = workflow(RELEASE)["jobs"]["publish"]
    (signing,) = [step for step in publish["steps"] if "secrets." in str(step)]

    assert "".join(path.read_text() for path in FILES).count("secrets") == 1
    assert signing["env"] == {KEY_VARIABLE: f"${{{{ secrets.{KEY_VARIABLE} }}}}"}
    assert signing["run"].startswith("./run python -m release build ")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_script_is_valid_shell(path: Path) -> None:
    for script in scripts(path):
        subprocess.run(["bash", "-n", "-c", script], check=True)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_script_stops_at_its_first_error(path: Path) -> None:
    """Of a pipe, too: GitHub sets pipefail only for a shell that is named."""
    assert workflow(path)["defaults"] == {"run": {"shell": "bash"}}
    assert [step for step in steps(path) if "shell" in step or step.get("continue-on-error")] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_step_keeps_the_token_and_no_job_runs_for_ever(path: Path) -> None:
    checkouts = [step for step in steps(path) if step.get("uses", "").startswith("actions/checkout@")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
    jobs = [job for job in workflow(path)["jobs"].values() if "uses" not in job]
    assert all(0 < job["timeout-minutes"] <= 60 for job in jobs)
    assert [job["runs-on"] for job in jobs if "latest" in job["runs-on"]] == []


def test_the_release_is_built_by_the_tested_commands() -> None:
    """Each time with the tag, which must be the version; the one that is published also with the image."""
    text = RELEASE.read_text().replace("\\\n", "")
    commands = [parser().parse_args(shlex.split(found)) for found in re.findall(r"python -m release (.*)", text)]
    default = {**vars(parser().parse_args(["build"])), "tag": "$GITHUB_REF_NAME"}

    assert [vars(each) for each in commands] == [
        {**default, "without_image": True},
        {"command": "image", "base_image": "$PYTHON_IMAGE", "out": Path("$NAME.tar")},
        {
            **default,
            "repository": "ghcr.io/${GITHUB_REPOSITORY,,}",
            "image_archive": [Path("images/image-amd64.tar"), Path("images/image-arm64.tar")],
        },
    ]
    assert "make release" not in text, "make would expand the name of a tag, such as v$(command)"


def test_all_of_a_release_is_published_with_a_signature_or_attestation() -> None:
    """In this order: an image is signed after its push, and files are attested before anybody can download them."""
    done = "\n".join(step.get("run") or f"{step['uses']} {step.get('with', '')}" for step in steps(RELEASE))

    assert in_order(done, "release build .*--repository", "skopeo copy --all", "cosign sign .*--recursive")
    assert in_order(done, "skopeo copy", "cosign attest .*--type cyclonedx .*dist/.*cdx.json", "subject-digest")
    assert in_order(done, r"helm push \S+\.tgz", r'cosign sign --yes "\$charts/equipoise@')
    attested = r"actions/attest-build-provenance@\w+ {'subject-path': 'dist/\*'}"
    assert in_order(done, attested, r'gh release create "\$GITHUB_REF_NAME" dist/\*')
    assert in_order(done, attested, r"uv publish --trusted-publishing always dist/\*")


def in_order(text: str, *patterns: str) -> bool:
    return re.search(".*".join(patterns), text, flags=re.DOTALL) is not None


def test_the_tests_are_those_of_the_readme() -> None:
    assert scripts(ROOT / ".github" / "workflows" / "ci.yml") == ["make check", ".ci/run"]
