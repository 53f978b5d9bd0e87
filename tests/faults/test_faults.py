"""The short form of the fault campaign; `make chaos` is the long one."""

import pytest

from faults.campaign import line, run_fault
from faults.catalog import SHORT
from faults.rig import Rig

pytestmark = pytest.mark.timeout(600)

CHOSEN = (
    "killed_binders",
    "redelivered",
    "errors",
    "nats_emptied",
    "stopped_descheduler",
    "not_numbers",
    "overwritten_amounts",
    "poison",
)
"""One fault of each kind, and for each invariant that a planted defect violates."""


@pytest.mark.parametrize("fault", CHOSEN)
async def test_invariants_hold_under(shared_rig: Rig, fault: str) -> None:
    """I1 to I8, I11, I16 to I18, I21 to I23, with enough traffic."""
    result = await run_fault(shared_rig, fault, 1, SHORT)

    assert result.passed, line(result)
