"""Tokens that expire, and a DNS server that starts late: services go on without a restart."""

import pytest
from e2e.real_nodes.programs import SECONDS, result_of

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(SECONDS + 60), pytest.mark.usefixtures("testbed_binaries")]


def test_services_outlive_their_tokens_and_wait_for_names() -> None:
    """Takes about fifteen minutes: a token is valid for ten."""
    result = result_of("expiry")

    assert result["tokens"] > 8, "of services and agents"
    assert result["same_tokens"] == []
    assert len(result["refused_before"]) == result["tokens"], "the API server refuses tokens that have expired"
    assert result["refused_now"] == []
    assert result["not_ready"] == {}
    assert result["restarted"] == {}
    assert "resolve" in result["named_without_dns"], "not only that there is no connection"
