"""The annotator's settings."""

from typing import Any

import msgspec
import pytest

from equipoise.annotator.settings import MembershipSettings


@pytest.mark.parametrize(
    ("section", "fault"),
    [
        ({"leaseDuration": 601}, "<= 600"),
        ({"leaseDuration": 20, "renewPeriod": 11}, "must be at least twice renewPeriod"),
    ],
)
def test_invalid_settings_are_refused(section: dict[str, Any], fault: str) -> None:
    """With the reason; a Lease of more than ten minutes would be refused by the API server."""
    with pytest.raises(msgspec.ValidationError, match=fault):
        msgspec.convert(section, MembershipSettings)
