"""What the image never uses is removed from it, and nothing that it uses."""

from pathlib import Path

import pytest
from requirements.trim import UNUSED, foreign_scripts, import_all, imported_names, unused


def files(folder: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def example(pattern: str) -> str:
    """A path that a pattern matches."""
    return pattern.replace("**", "part").replace("*", "package")


def test_a_pattern_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    """A package whose new version has another layout would be in the image again."""
    for pattern in UNUSED:
        (tmp_path / example(pattern)).mkdir(parents=True, exist_ok=True)
    assert {*unused(tmp_path)} >= {tmp_path / example(pattern) for pattern in UNUSED}
    (tmp_path / "numpy" / "f2py").rmdir()

    with pytest.raises(SystemExit, match=r"numpy/f2py does not exist: correct UNUSED"):
        list(unused(tmp_path))


def test_only_our_programs_and_python_remain(tmp_path: Path) -> None:
    files(tmp_path, {"equipoise": "from equipoise.cli.main import main", "f2py": "from numpy.f2py", "activate": ""})
    (tmp_path / "python").write_bytes(b"\x7fELF\xff")

    assert {path.name for path in foreign_scripts(tmp_path)} == {"f2py", "activate"}


def test_imports_in_functions_count(tmp_path: Path) -> None:
    text = (
        "import json\ndef later():\n    from email import message\n    import html.parser as h\nfrom . import sibling"
    )
    files(tmp_path, {"equipoise/part/__init__.py": "", "equipoise/part/one.py": text, "equipoise/part/__main__.py": ""})

    assert imported_names(tmp_path) == {"equipoise.part", "equipoise.part.one", "json", "email", "html.parser"}


def test_a_missing_module_of_an_installed_package_is_an_error(tmp_path: Path) -> None:
    """A package that is not installed belongs to an extra that the image does not have."""
    import_all(files(tmp_path / "absent", {"equipoise/one.py": "import package_of_another_extra, equipoise.nothing"}))

    with pytest.raises(ModuleNotFoundError, match=r"msgspec\.removed"):
        import_all(files(tmp_path / "removed", {"equipoise/one.py": "import msgspec.removed"}))
