"""When a configuration file counts as changed."""

from pathlib import Path

from equipoise.runtime.process.main import FileWatch


def test_a_file_counts_as_changed_once_it_has_stayed_as_it_is_for_a_look(tmp_path: Path) -> None:
    """An editor may write in several steps; what is read in between could be a valid half."""
    path = tmp_path / "file"
    path.write_text("one")
    watch = FileWatch(path)
    assert not watch.changed()
    path.write_text("the second")
    assert not watch.changed()
    path.write_text("the second and third")
    assert not watch.changed()
    assert watch.changed()
    assert not watch.changed()


def test_the_link_of_a_config_map_counts_as_its_file(tmp_path: Path) -> None:
    """kubelet writes another directory and swaps a symbolic link; the path that is watched stays a link."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "equipoise.yaml").write_text("same size")
    (tmp_path / "data").symlink_to("old")
    watch = FileWatch(tmp_path / "data" / "equipoise.yaml")
    (tmp_path / "data").unlink()
    (tmp_path / "data").symlink_to("new")
    assert not watch.changed()
    assert watch.changed()


def test_a_file_that_is_gone_for_a_moment_is_no_change_when_it_comes_back_the_same(tmp_path: Path) -> None:
    """Between two looks it was away: nothing to read."""
    path = tmp_path / "file"
    path.write_text("one")
    watch = FileWatch(path)
    path.rename(tmp_path / "aside")
    assert not watch.changed()
    (tmp_path / "aside").rename(path)
    assert not watch.changed()
    assert not watch.changed()
