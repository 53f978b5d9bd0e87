"""The archive with the image of each architecture."""

import json
import tarfile
from pathlib import Path

import pytest
from release import ReleaseError
from release.image_archive import INDEX, read_files, read_image, write_archive
from released.oci import DEBIAN, MANIFEST, write_image, write_tar


def test_one_archive_has_the_images_of_all_architectures_by_the_digest_of_their_index(tmp_path: Path) -> None:
    """A cluster with nodes of both gets the same digest everywhere."""
    images = [
        read_image(write_image(tmp_path / f"{name}.tar", architecture=name, python="3.13.1"))
        for name in ("arm64", "amd64")
    ]
    digest = write_archive(images, tmp_path / "all.tar", "0.1.0")

    with tarfile.open(tmp_path / "all.tar") as tar:
        files = {each.name: file.read() for each in tar if (file := tar.extractfile(each))}
    (named,) = json.loads(files["index.json"])["manifests"]
    assert (named["digest"], named["mediaType"]) == (digest, INDEX)
    assert named["annotations"] == {"org.opencontainers.image.ref.name": "0.1.0"}
    index = json.loads(files[f"blobs/{digest.replace(':', '/')}"])
    assert [each["platform"]["architecture"] for each in index["manifests"]] == ["amd64", "arm64"]
    assert index["manifests"][0] == images[1].descriptor
    for each in index["manifests"]:
        manifest = json.loads(files[f"blobs/{each['digest'].replace(':', '/')}"])
        assert all(f"blobs/{part['digest'].replace(':', '/')}" in files for part in manifest["layers"])


def test_the_same_images_give_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        image = read_image(write_image(tmp_path / folder / "image.tar"))
        write_archive([image], tmp_path / folder / "all.tar", "0.1.0")

    assert (tmp_path / "first" / "all.tar").read_bytes() == (tmp_path / "second" / "all.tar").read_bytes()


def test_two_images_of_one_architecture_are_refused(tmp_path: Path) -> None:
    image = read_image(write_image(tmp_path / "image.tar"))

    with pytest.raises(ReleaseError, match="two images are for one architecture"):
        write_archive([image, image], tmp_path / "all.tar", "0.1.0")


def test_a_file_is_that_of_the_highest_layer(tmp_path: Path) -> None:
    layers = [{"./etc/a": "below", "etc/b": "only"}, {"etc/a": "above", "etc/c": "not asked for"}]
    image = read_image(write_image(tmp_path / "image.tar", layers))

    assert read_files(image, ("etc/a", "etc/b", "etc/none")) == {"etc/a": b"above", "etc/b": b"only"}


def damaged(path: Path, *, change: bytes = b"", to: bytes = b"") -> Path:
    path.write_bytes(path.read_bytes().replace(change, to, 1))
    return path


def index_of(*manifests: object) -> bytes:
    return write_tar({"index.json": json.dumps({"manifests": manifests}).encode()})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no archive",
        write_tar({"repositories": b"{}"}),
        write_tar({"index.json": b"\xff"}),
        write_tar({"index.json": b"[]"}),
        index_of(),
        index_of({}, {}),
        index_of({"mediaType": MANIFEST, "digest": "sha256:absent", "size": 1}),
        index_of("text"),
    ],
)
def test_anything_but_an_archive_of_one_image_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "image.tar").write_bytes(data)

    with pytest.raises(ReleaseError, match=r"image\.tar is not an OCI archive of one image"):
        read_image(tmp_path / "image.tar")


def test_an_archive_of_which_a_part_was_changed_or_is_absent_is_refused(tmp_path: Path) -> None:
    changed = damaged(write_image(tmp_path / "changed.tar"), change=b'"os": "linux"', to=b'"os": "other"')
    with pytest.raises(ReleaseError, match=r"blobs/sha256/\w+ was changed"):
        read_image(changed)
    cut = write_image(tmp_path / "cut.tar")
    cut.write_bytes(cut.read_bytes()[:1000])
    with pytest.raises(ReleaseError, match="is not an OCI archive"):
        read_image(cut)
    with pytest.raises(ReleaseError, match="is not an OCI archive"):
        read_image(tmp_path / "absent.tar")


def test_an_index_in_the_place_of_an_image_is_refused(tmp_path: Path) -> None:
    """An archive that a release has written already."""
    write_archive([read_image(write_image(tmp_path / "image.tar", (DEBIAN,)))], tmp_path / "all.tar", "0.1.0")

    with pytest.raises(ReleaseError, match="is not an OCI archive of one image"):
        read_image(tmp_path / "all.tar")


def test_an_image_in_another_format_is_refused(tmp_path: Path) -> None:
    """An index of OCI may not have it, and registries would refuse the index."""
    other = MANIFEST.replace("oci", "xyz")
    archive = damaged(write_image(tmp_path / "image.tar"), change=MANIFEST.encode(), to=other.encode())

    with pytest.raises(ReleaseError, match=r"it has application/vnd\.xyz"):
        read_image(archive)
