"""The short form of the fault campaign (`make chaos` is the long one): real parts, the audit log as witness."""

import pytest

from faults.campaign import line, try_fault
from faults.rig import Rig
from faults.troubles import SHORT

pytestmark = pytest.mark.timeout(600)

CHOSEN = ("killed_binders", "redelivered", "errors", "nats_emptied", "stopped_descheduler", "not_numbers")
"""One of each kind, for each invariant that a planted defect breaks."""


@pytest.mark.parametrize("fault", CHOSEN)
async def test_invariants_hold_under(world: Rig, fault: str) -> None:
    """Enough happened, and none of I1 to I8, I11, I16 to I18 was violated."""
    result = await try_fault(world, fault, 1, SHORT)

    assert result.green, line(result)
