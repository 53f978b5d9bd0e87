"""Each defect can be planted in the current source."""

import shutil
from pathlib import Path

import pytest

from faults.catalog import FAULTS
from faults.defects import DEFECTS, Defect, Patch
from faults.invariants import INVARIANTS
from faults.planted import ROOT, Misplaced, patched, plant, repair


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_every_patch_applies(defect: Defect) -> None:
    """And the tests and the fault that must detect it exist."""
    for patch in defect.patches:
        text = (ROOT / patch.file).read_text()
        assert text != patched(text, patch)
    for test in defect.tests:
        file, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text()
    assert (defect.fault in FAULTS and defect.invariant in (*INVARIANTS, "also")) or not defect.fault + defect.invariant


def test_the_defects_have_different_names() -> None:
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS)


def test_a_repaired_tree_is_as_before(tmp_path: Path) -> None:
    """Also the times of its files: Python must compile them again for the next defect."""
    defect = DEFECTS[0]
    for patch in defect.patches:
        (tmp_path / patch.file).parent.mkdir(parents=True)
        shutil.copy2(ROOT / patch.file, tmp_path / patch.file)
    plant(tmp_path, defect)
    assert (tmp_path / defect.patches[0].file).read_text() != (ROOT / defect.patches[0].file).read_text()
    repair(tmp_path, defect)
    for patch in defect.patches:
        original, repaired = ROOT / patch.file, tmp_path / patch.file
        assert repaired.read_text() == original.read_text()
        assert repaired.stat().st_mtime == original.stat().st_mtime


def test_a_patch_that_does_not_apply_is_an_error() -> None:
    """Also when the file contains its text twice."""
    patch = Patch(file="a.py", before="x = 1", after="x = 2")
    for text in ("y = 1", "x = 1\nx = 1"):
        with pytest.raises(Misplaced, match=r"a\.py"):
            patched(text, patch)


def test_the_documentation_names_every_fault_invariant_and_defect() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text()
    named = [*(f"`{name}`" for name in FAULTS), *(f"| {name} |" for name in INVARIANTS)]
    assert [name for name in (*named, *(defect.name for defect in DEFECTS)) if name not in text] == []
