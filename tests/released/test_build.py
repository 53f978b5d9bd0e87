"""What `make release` builds."""

import asyncio
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import AsyncIterator
from email import message_from_string
from pathlib import Path

import pytest
import yaml
from cli.programs import Running
from cluster_fixtures import StartCluster
from deployment.base import BASE, NAMESPACE, ROOT
from deployment.helm import CHART, Helm, documents_in
from deployment.image import docker_context
from release import ReleaseError
from release.__main__ import main
from release.build import build
from release.chart import chart_image, package_chart, published_image
from release.verification import CHECKSUMS, REHEARSAL_KEY, verify_release
from release.versions import members, release_version
from requirements.pins import read_pins

from equipoise.contracts.bus.subjects import SERVICES
from equipoise.contracts.configuration.section_names import SECTIONS

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
UV = os.environ.get("UV", ROOT / ".tools" / "bin" / "uv")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("release") / "dist"
    build(ROOT, out)
    return out


def copied(folder: Path) -> Path:
    """The files that a release is built from, elsewhere and with other permissions and times."""
    for name in ("libs", "services", "requirements", "charts"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.utime(path, (1e9, 1e9))
    return folder


def contents(release: Path, name: str) -> dict[str, bytes]:
    """The files of a wheel that are not its metadata."""
    (path,) = release.glob(f"{name.replace('-', '_')}-{VERSION}-py3-none-any.whl")
    with zipfile.ZipFile(path) as wheel:
        return {
            each: wheel.read(each) for each in wheel.namelist() if not each.endswith("/") and ".dist-info/" not in each
        }


def sources(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def test_two_builds_have_the_same_bytes(release: Path, tmp_path: Path) -> None:
    """Whoever builds the same commit can compare the checksums with the published ones.

    Takes seconds: it builds all packages.
    """
    build(copied(tmp_path / "copy"), tmp_path / "dist")

    assert (release / CHECKSUMS).read_text() == (tmp_path / "dist" / CHECKSUMS).read_text()


def test_the_checksums_are_of_all_files_and_signed(release: Path) -> None:
    listed = dict(reversed(line.split("  ")) for line in (release / CHECKSUMS).read_text().splitlines())
    files = verify_release(release, release / REHEARSAL_KEY)

    assert listed == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    kinds = {re.sub(rf".*{re.escape(VERSION)}-?", "", path.name) for path in files}
    assert {"py3-none-any.whl", ".tar.gz", "requirements.txt", ".cdx.json", ".tgz"} == kinds
    assert {path.name for path in release.iterdir()} - listed.keys() == {CHECKSUMS, f"{CHECKSUMS}.sig", REHEARSAL_KEY}


@pytest.mark.parametrize("member", members(ROOT), ids=lambda path: path.name)
def test_a_wheel_contains_every_module_and_data_file_and_the_license(release: Path, member: Path) -> None:
    project = tomllib.loads((member / "pyproject.toml").read_text())["project"]

    assert contents(release, project["name"]) == sources(member / "src")
    (path,) = release.glob(f"{project['name'].replace('-', '_')}-{VERSION}-*.whl")
    with zipfile.ZipFile(path) as wheel:
        folder = f"{project['name'].replace('-', '_')}-{VERSION}.dist-info"
        metadata = message_from_string(wheel.read(f"{folder}/METADATA").decode())
        assert wheel.read(f"{folder}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert metadata["Name"] == project["name"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert set(project["dependencies"]) <= set(metadata.get_all("Requires-Dist", []))


@pytest.mark.parametrize("member", members(ROOT), ids=lambda path: path.name)
def test_a_source_distribution_contains_the_sources_and_the_license(release: Path, member: Path) -> None:
    project = tomllib.loads((member / "pyproject.toml").read_text())["project"]
    name = f"{project['name'].replace('-', '_')}-{VERSION}"
    with tarfile.open(release / f"{name}.tar.gz") as archive:
        found = {each.name.removeprefix(f"{name}/"): archive.extractfile(each) for each in archive if each.isfile()}
        data = {path: file.read() for path, file in found.items() if file is not None}

    assert {path.removeprefix("src/"): text for path, text in data.items() if path.startswith("src/")} == sources(
        member / "src"
    )
    assert data["LICENSE"] == (ROOT / "LICENSE").read_bytes()


def test_the_image_is_built_from_what_the_wheels_contain(release: Path, tmp_path: Path) -> None:
    """The Dockerfile installs the folders of our packages, as far as .dockerignore leaves them."""
    context = docker_context(tmp_path / "context")
    copied_into_image = {name: data for folder in context.glob("*/*/src") for name, data in sources(folder).items()}
    wheels = ("equipoise", *(f"equipoise-{name}" for name in ("common", "scheduling", "scheduler", *SECTIONS)))

    assert copied_into_image == {name: data for wheel in wheels for name, data in contents(release, wheel).items()}
    assert (release / f"equipoise-{VERSION}-requirements.txt").read_text() == (
        ROOT / "requirements" / "image.txt"
    ).read_text()


def test_the_tag_must_be_the_version() -> None:
    assert VERSION == release_version(ROOT, f"v{VERSION}")
    with pytest.raises(ReleaseError, match=rf"the tag is v9\.0\.0, and the version is {VERSION}"):
        release_version(ROOT, "v9.0.0")


CHART_FILE = """apiVersion: v2
name: equipoise
version: {version}
appVersion: "{version}"
"""
VALUES = """# -- Image.
image:
  # -- Registry.
  registry: ''
  repository: equipoise
  # -- Tag.
  tag: ''
  # -- Digest; replaces the tag.
  digest: ''
nats:
  image:
    repository: nats
    digest: ''
"""
DIGEST = f"sha256:{'a1' * 32}"


def with_chart(root: Path, version: str) -> Path:
    chart = root / "charts" / "equipoise"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text(CHART_FILE.format(version=version))
    (chart / "values.yaml").write_text(VALUES)
    (chart / "templates" / "job.yaml").write_text("kind: Job\n")
    return chart


@pytest.mark.parametrize("file", ["libs/lab/pyproject.toml", "charts/equipoise/Chart.yaml"])
def test_a_file_with_another_version_is_named(tmp_path: Path, file: str) -> None:
    for project in (ROOT / "pyproject.toml", *(member / "pyproject.toml" for member in members(ROOT))):
        copy = tmp_path / project.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(project, copy)
    with_chart(tmp_path, VERSION)
    assert release_version(tmp_path) == VERSION
    (tmp_path / file).write_text((tmp_path / file).read_text().replace(VERSION, "9.9.9", 1))

    with pytest.raises(ReleaseError, match=rf"{file}( \(version\))? has 9\.9\.9"):
        release_version(tmp_path)


def test_the_chart_installs_the_image_of_the_release(tmp_path: Path) -> None:
    """And each package of the same files has the same bytes."""
    first, second = (with_chart(tmp_path / name, VERSION) for name in ("first", "second"))
    (first / "Chart.yaml").chmod(0o600)
    image = published_image("registry.example.com/team/equipoise", DIGEST)
    packages = [package_chart(chart, chart.parents[1], VERSION, image) for chart in (first, second)]

    assert packages[0].name == f"equipoise-{VERSION}.tgz"
    assert packages[0].read_bytes() == packages[1].read_bytes()
    with tarfile.open(packages[0]) as archive:
        names = ("Chart.yaml", "templates/job.yaml", "values.yaml")
        assert archive.getnames() == [f"equipoise/{name}" for name in names]
        file = archive.extractfile("equipoise/values.yaml")
        assert file is not None
        values = yaml.safe_load(file)
    assert image == chart_image(packages[0])
    installed = {"registry": "registry.example.com", "repository": "team/equipoise", "tag": "", "digest": DIGEST}
    assert values == {**yaml.safe_load(VALUES), "image": installed}


def test_helm_installs_the_packaged_chart(helm_program: Path, tmp_path: Path) -> None:
    """It renders the same objects as the folder, with the image of the release. Takes seconds: helm runs."""
    helm = Helm(program=helm_program, home=tmp_path)
    package = package_chart(CHART, tmp_path, VERSION, published_image("registry.example.com/team/equipoise", DIGEST))
    values = {"image": {"registry": "registry.example.com", "repository": "team/equipoise", "digest": DIGEST}}
    rendered = helm.run("template", "equipoise", package, "--kube-version", "v1.36.3", "--namespace", NAMESPACE)

    assert f"version: {VERSION}\n" in helm.run("show", "chart", package)
    assert rendered.count(f"registry.example.com/team/equipoise@{DIGEST}") >= len(SERVICES)
    tested = [each for each in documents_in(rendered) if "helm.sh/hook" not in each["metadata"].get("annotations", {})]
    assert tested == helm.template(values)


@pytest.mark.parametrize("values", ["image: {}\n", VALUES.replace("  digest: ''\nnats", "nats"), ""])
def test_values_without_a_place_for_the_image_are_refused(tmp_path: Path, values: str) -> None:
    """The chart would otherwise install another one."""
    chart = with_chart(tmp_path, VERSION)
    (chart / "values.yaml").write_text(values)

    with pytest.raises(ReleaseError, match=r"expected one image\.\w+, found 0"):
        package_chart(chart, tmp_path, VERSION, published_image(None, DIGEST))


@pytest.mark.parametrize(
    "repository", ["equipoise", "team/equipoise", "registry.example.com/Team/equipoise", "registry.example.com/e:1", ""]
)
def test_a_repository_must_have_a_registry_and_no_tag(repository: str) -> None:
    """Without a registry, each container runtime completes a name in its own way."""
    with pytest.raises(ReleaseError, match="expected REGISTRY/REPOSITORY, without a tag"):
        published_image(repository, DIGEST)


def test_a_chart_without_the_digest_of_its_image_is_recognized(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="does not name its image by digest"):
        chart_image(package_chart(with_chart(tmp_path, VERSION), tmp_path, VERSION))


MALFORMED: dict[str, tuple[str, bytes, str]] = {
    "no hash": ("requirements/image.txt", b"msgspec==1.0 \\\n", r"requirements/image\.txt: no hash: msgspec"),
    "a merge conflict": ("requirements/image.txt", b"<<<<<<< HEAD\n", r"requirements/image\.txt: not a pinned version"),
    "not UTF-8": ("requirements/image.txt", b"\xff\xfe", r"requirements/image\.txt: .*utf-8"),
    "without a package that needs another": (
        "requirements/image.txt",
        b"a==1 \\\n    --hash=sha256:" + b"0" * 64 + b"\n    # via b\n",
        r"requirements/image\.txt: it has no package b",
    ),
    "no TOML": ("pyproject.toml", b"[project", r"pyproject\.toml cannot be read"),
    "no version": ("libs/common/pyproject.toml", b"[project]\n", r"libs/common/pyproject\.toml has none"),
    "no project": ("libs/common/pyproject.toml", b"project = 1\n", r"libs/common/pyproject\.toml has none"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_is_named_before_an_image_is_built_or_an_earlier_build_deleted(
    name: str, tmp_path: Path
) -> None:
    file, text, message = MALFORMED[name]
    root, out = copied(tmp_path / "copy"), tmp_path / "dist"
    (root / file).write_bytes(text)
    out.mkdir()
    (out / CHECKSUMS).write_text("earlier")

    with pytest.raises(ReleaseError, match=message):
        build(root, out, archives=lambda: pytest.fail("an image was built"))

    assert [CHECKSUMS] == [path.name for path in out.iterdir()]


def test_a_folder_that_is_no_earlier_build_is_not_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("two years of work")

    assert main(["build", "--out", str(tmp_path)]) == 1
    assert "is not emptied" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").exists()


# Installed


@pytest.fixture(scope="module")
def program(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`equipoise` in a new environment, installed from the wheels as `pip install 'equipoise[local]'` does."""
    folder = tmp_path_factory.mktemp("installed")
    environment = {name: value for name, value in os.environ.items() if name not in ("UV_PYTHON", "VIRTUAL_ENV")}
    pinned = folder / "pinned.txt"
    pins = read_pins((ROOT / "requirements" / "dev.txt").read_text())
    pinned.write_text("".join(f"{pin.name}=={pin.version}{pin.marker and ' ; '}{pin.marker}\n" for pin in pins))
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, folder / "venv"], env=environment, check=True)
    command = [UV, "pip", "install", "--quiet", "--python", folder / "venv", "--no-build", "--constraints", pinned]
    subprocess.run(
        [*command, "--find-links", release, f"equipoise[local]=={VERSION}"], env=environment, check=True, timeout=300
    )
    return folder / "venv" / "bin" / "equipoise"


async def installed(program: Path, *arguments: str | Path, **variables: str) -> Running:
    """Without the packages of this environment."""
    environment = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    return Running(
        await asyncio.create_subprocess_exec(
            program,
            *map(str, arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**environment, "PATH": "/usr/bin:/bin", **variables},
        )
    )


@pytest.mark.weekly
@pytest.mark.timeout(600)
async def test_the_installed_program_has_the_version_and_validates_the_shipped_configuration(program: Path) -> None:
    version = await installed(program, "--version")
    assert (0, f"equipoise {VERSION}\n") == (await version.ends(), version.output)

    valid = await installed(program, "config", "validate", BASE / "equipoise.yaml")
    assert (0, "valid") == (await valid.ends(), valid.output.splitlines()[-1])

    missing = await installed(program, "demo")
    assert await missing.ends() == 1
    assert "run pip install 'equipoise[lab]'" in missing.output


@pytest.fixture
async def up(start_cluster: StartCluster, program: Path) -> AsyncIterator[Running]:
    from equipoise.testbed.processes.configuration import PrometheusConfiguration

    cluster = await asyncio.to_thread(start_cluster, prometheus=PrometheusConfiguration(scrape_interval=1.0))
    running = await installed(program, "up", "--prometheus", cluster.prometheus_url, KUBECONFIG=str(cluster.kubeconfig))
    try:
        yield running
    finally:
        if running.process.returncode is None:
            running.process.kill()
            await running.process.wait()


@pytest.mark.weekly
@pytest.mark.timeout(600)
async def test_the_installed_program_runs_all_services_against_a_real_cluster(up: Running) -> None:
    """Each is ready, and the command ends them in order."""
    for service in SERVICES:
        if service != "annotator":
            await up.prints(f"{service} is ready")
    up.process.terminate()

    assert await up.ends() in (0, 143)
