from pathlib import Path

import pytest

from equipoise.runtime.process.bounded_files import FileTooLarge, read_bounded, read_bounded_text


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text("{é}")

    assert read_bounded(file, 4) == "{é}".encode()
    assert read_bounded_text(file) == "{é}"


def test_a_longer_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text("12345")

    with pytest.raises(FileTooLarge, match=r"more than 4 bytes.*plan\.json"):
        read_bounded(file, 4)


def test_a_device_without_an_end_is_an_error() -> None:
    with pytest.raises(FileTooLarge):
        read_bounded("/dev/zero", 1_000)
