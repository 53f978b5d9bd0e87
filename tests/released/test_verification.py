"""What is accepted as a release, and what is refused."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from release import ReleaseError
from release.__main__ import main
from release.signature import KEY_VARIABLE, NAMESPACE, new_key, sign
from release.verification import CHECKSUMS, REHEARSAL_KEY, verify_release, write_checksums

SIGNATURE = f"{CHECKSUMS}.sig"
CHART = "equipoise-0.1.0.tgz"


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """The folder of a small release that is signed with a key of its own."""
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / CHART).write_text("a chart")
    (folder / "equipoise-0.1.0-image.tar").write_bytes(bytes(range(256)))
    public_key = sign(write_checksums(folder), new_key())
    (folder / REHEARSAL_KEY).write_text(f"{public_key}\n")
    return folder


def test_the_files_of_a_release_are_listed(released: Path) -> None:
    found = verify_release(released, released / REHEARSAL_KEY)

    assert [path.name for path in found] == ["equipoise-0.1.0-image.tar", CHART]


def test_a_key_beside_the_files_is_no_proof_of_their_origin(
    released: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever replaced the files could replace the key as well."""
    key = tmp_path / "release.pub"
    (released / REHEARSAL_KEY).rename(key)
    assert main(["verify", str(released), "--key", str(key)]) == 0
    assert capsys.readouterr().out == f"2 files are those that the owner of {key} has signed\n"
    key.rename(released / REHEARSAL_KEY)

    assert main(["verify", str(released), "--key", str(released / REHEARSAL_KEY)]) == 0
    assert "this shows only that the files belong together" in capsys.readouterr().out


def test_a_folder_that_does_not_exist_is_refused_with_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(tmp_path / "none"), "--key", str(tmp_path / "key.pub")]) == 1
    assert "is missing" in capsys.readouterr().err


def test_a_base_image_without_a_digest_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tag can be moved between the builds of two architectures."""
    assert main(["image", "--base-image", "python:3.13", "--out", str(tmp_path / "image.tar")]) == 1
    assert "'python:3.13' has no digest" in capsys.readouterr().err


def test_the_documented_commands_accept_a_release_and_refuse_a_changed_one(released: Path) -> None:
    """docs/upgrading.md has them for those who have no clone."""
    (released / "allowed").write_text(f"equipoise {(released / REHEARSAL_KEY).read_text()}")
    command = (
        f"ssh-keygen -Y verify -f allowed -I equipoise -n {NAMESPACE} -s {SIGNATURE} < {CHECKSUMS} "
        f"&& sha256sum --check --strict {CHECKSUMS}"
    )
    documented = (Path(__file__).parents[2] / "docs" / "upgrading.md").read_text()
    assert all(part in documented for part in command.split(" && "))

    assert subprocess.run(["sh", "-c", command], cwd=released, capture_output=True, check=False).returncode == 0
    (released / CHART).write_text("another chart")
    assert subprocess.run(["sh", "-c", command], cwd=released, capture_output=True, check=False).returncode != 0


def change_file(folder: Path) -> None:
    (folder / CHART).write_text("another chart")


def change_file_and_checksums(folder: Path) -> None:
    change_file(folder)
    checksums = folder / CHECKSUMS
    signature = (folder / SIGNATURE).read_bytes()
    (folder / SIGNATURE).unlink()
    key = (folder / REHEARSAL_KEY).read_text()
    (folder / REHEARSAL_KEY).unlink()
    write_checksums(folder)
    assert CHART in checksums.read_text()
    (folder / SIGNATURE).write_bytes(signature)
    (folder / REHEARSAL_KEY).write_text(key)


def sign_with_another_key(folder: Path) -> None:
    sign(folder / CHECKSUMS, new_key())


def sign_for_another_purpose(folder: Path) -> None:
    """The owner of a key may sign other things with it, such as commits."""
    key = folder.parent / "key"
    key.touch(mode=0o600)
    key.write_text(new_key())
    (folder / SIGNATURE).unlink()
    subprocess.run(["ssh-keygen", "-Y", "sign", "-n", "git", "-f", key, folder / CHECKSUMS], check=True)
    public_key = subprocess.run(["ssh-keygen", "-y", "-f", key], check=True, capture_output=True).stdout
    (folder / REHEARSAL_KEY).write_bytes(public_key)


def sign_a_path(folder: Path) -> None:
    """A checksum of a file elsewhere, signed by mistake."""
    (folder / CHECKSUMS).write_text(f"{'0' * 64}  ../elsewhere\n")
    (folder / REHEARSAL_KEY).write_text(sign(folder / CHECKSUMS, new_key()))


def replace_key(text: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / REHEARSAL_KEY).write_text(text.replace("KEY", (folder / REHEARSAL_KEY).read_text()))

    return change


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (change_file, f"{CHART} was changed: it differs from its checksum"),
        (change_file_and_checksums, f"{SIGNATURE} is no signature of .*{CHECKSUMS}: one of them was changed"),
        (lambda folder: (folder / CHART).unlink(), f"{CHART} is missing: fetch it again"),
        (lambda folder: (folder / CHECKSUMS).unlink(), f"{CHECKSUMS} is missing"),
        (lambda folder: (folder / SIGNATURE).unlink(), f"{SIGNATURE} is missing: without it nobody knows who"),
        (lambda folder: (folder / SIGNATURE).write_text(""), f"{SIGNATURE} is no signature of"),
        (lambda folder: (folder / SIGNATURE).write_bytes(b"\xff\0"), f"{SIGNATURE} is no signature of"),
        (lambda folder: (folder / CHECKSUMS).write_bytes(b"\xff\r\n"), f"{SIGNATURE} is no signature of"),
        (sign_with_another_key, r"is signed by another key \(SHA256:\S+\) than"),
        (sign_for_another_purpose, f"{SIGNATURE} is no signature of"),
        (sign_a_path, f"{CHECKSUMS}, line 1: expected a checksum"),
        (lambda folder: (folder / "equipoise-0.1.1.tgz").touch(), r"not part of the release: remove equipoise-0\.1\.1"),
        (lambda folder: (folder / "plugins").mkdir(), "not part of the release: remove plugins"),
        (lambda folder: (folder / REHEARSAL_KEY).unlink(), f"{REHEARSAL_KEY} cannot be read"),
        (lambda folder: (folder / REHEARSAL_KEY).write_bytes(b"\xff"), f"{REHEARSAL_KEY} cannot be read"),
        (replace_key(""), f"{REHEARSAL_KEY} is not a public key"),
        (replace_key("KEYKEY"), f"{REHEARSAL_KEY} is not a public key"),
        (replace_key("cert-authority KEY"), f"{REHEARSAL_KEY} is not a public key"),
        (lambda folder: (folder / REHEARSAL_KEY).write_text(new_key()), f"{REHEARSAL_KEY} is not a public key"),
        (replace_key("ssh-ed25519 AAAA"), "is signed by another key"),
    ],
)
def test_anything_else_is_refused_with_one_sentence(
    released: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Path], None], error: str
) -> None:
    change(released)

    with pytest.raises(ReleaseError, match=error):
        verify_release(released, released / REHEARSAL_KEY)
    for command in ("verify", "install"):
        assert main([command, str(released), "--key", str(released / REHEARSAL_KEY)]) == 1
        assert capsys.readouterr().err.count("\n") == 1


def private_key(folder: Path, passphrase: str = "") -> str:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", folder / "private"]
    subprocess.run(command, check=True)
    return (folder / "private").read_text()


@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_a_key_from_the_environment_is_used_without_its_last_line_break_too(tmp_path: Path, line_break: str) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / CHART).touch()
    key = private_key(tmp_path)
    public_key = sign(write_checksums(tmp_path / "dist"), line_break.join(key.splitlines()))

    assert public_key == (tmp_path / "private.pub").read_text().strip()
    assert verify_release(tmp_path / "dist", tmp_path / "private.pub")


def test_a_key_that_cannot_sign_is_refused_without_its_contents(tmp_path: Path) -> None:
    """Neither the errors nor the signed folder contain a part of it."""
    for number, key in enumerate((private_key(tmp_path, "passphrase"), "secret-text", "\n")):
        file = tmp_path / str(number)
        file.write_text("data")
        with pytest.raises(ReleaseError, match=f"{KEY_VARIABLE} is not a private key") as caught:
            sign(file, key)
        assert not any(line in str(caught.value) for line in key.split())
        assert not file.with_name(f"{file.name}.sig").exists()


def test_programs_of_the_build_do_not_get_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build backend could send it elsewhere."""
    monkeypatch.setenv(KEY_VARIABLE, "secret-text")
    (tmp_path / "no-release").touch()

    assert main(["build", "--out", str(tmp_path)]) == 1
    assert KEY_VARIABLE not in os.environ


def test_a_release_with_a_published_image_is_never_signed_with_a_key_for_rehearsals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A secret that is not set is an empty variable there."""
    arguments = ["--image-archive", "image.tar", "--repository", "registry.example.com/equipoise"]

    assert main(["build", "--out", str(tmp_path / "dist"), *arguments]) == 1
    assert f"set {KEY_VARIABLE}" in capsys.readouterr().err
    assert not (tmp_path / "dist").exists()
