"""Each defect can be planted in the current source."""

import re

import pytest

from faults.catalog import FAULTS
from faults.invariants import INVARIANTS
from faults.planted import DEFECTS, ROOT, Defect, Misplaced, Patch, patched


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_every_patch_applies(defect: Defect) -> None:
    """And the tests and the fault that must detect it exist."""
    for patch in defect.patches:
        text = (ROOT / patch.file).read_text()
        assert text != patched(text, patch)
    file, *options = defect.tests
    selected = options[1] if options else ""
    assert [name for name in re.findall(r"def (test_\w+)", (ROOT / file).read_text()) if selected in name]
    assert defect.fault in FAULTS


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
