"""Each defect can be planted in the source as it is today."""

import pytest

from faults.invariants import INVARIANTS
from faults.planted import DEFECTS, ROOT, Defect, Misplaced, Patch, patched
from faults.troubles import FAULTS


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_its_place_is_there(defect: Defect) -> None:
    """Every patch finds its piece once, and those who must notice exist."""
    for patch in defect.patches:
        text = (ROOT / patch.file).read_text()
        assert text != patched(text, patch)
    assert (ROOT / defect.tests[0]).is_file()
    assert defect.fault in FAULTS


def test_a_lost_place_is_an_error() -> None:
    """A patch whose piece is gone, or is there twice, is not silently left out."""
    patch = Patch(file="a.py", before="x = 1", after="x = 2")
    for text in ("y = 1", "x = 1\nx = 1"):
        with pytest.raises(Misplaced, match=r"a\.py"):
            patched(text, patch)


def test_the_documentation_names_everything() -> None:
    """Every fault, invariant and planted defect stands in docs/reliability.md."""
    text = (ROOT / "docs" / "reliability.md").read_text()
    named = [*(f"`{name}`" for name in FAULTS), *(f"| {name} |" for name in INVARIANTS)]
    assert [name for name in (*named, *(defect.name for defect in DEFECTS)) if name not in text] == []
