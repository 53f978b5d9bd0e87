"""What an operator sees of the source of metrics, and that tokens are used, in a restricted namespace."""

import pytest
from e2e.real_nodes.programs import SECONDS, result_of

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(SECONDS + 60), pytest.mark.usefixtures("testbed_binaries")]


def test_the_source_of_metrics_is_found_or_named_and_a_new_token_needs_no_restart() -> None:
    """Takes six minutes: the chart is installed, and upgraded three times; a load is known after five."""
    result = result_of("sources")
    nothing, found, refused, accepted = (result[name] for name in ("nothing", "found", "refused", "accepted"))

    assert "nothing is measured: no Service of the cluster is that of a Prometheus" in nothing["reason"]
    assert not nothing["test"]["passed"]
    [error, _fix] = nothing["test"]["prometheus"]
    assert nothing["reason"] in error, "and not an address that nobody has configured"
    assert any(nothing["reason"] in line for line in nothing["test"]["reported"])

    for name in ("metrics-a", "metrics-b"):
        assert f"http://prometheus.{name}.svc:9090" in result["several"].partition("not used")[0]
    assert "not used: their accounts may not read nodes/metrics: http://prometheus.tenant.svc:9090" in result["several"]

    assert found["reason"].startswith("Prometheus http://prometheus.metrics-a.svc:9090 has the metrics")
    assert found["test"]["passed"], "the Job of `helm test` uses the source that was found"
    assert "ok       http://prometheus.metrics-a.svc:9090: responds" in found["test"]["prometheus"]

    assert any("Secret prometheus-client, which collector.extraVolumes names" in line for line in result["preview"])
    assert any("401, the credentials are rejected" in problem for problem in refused["problems"])
    assert not refused["test"]["passed"]
    assert any("401, the credentials are rejected" in line for line in refused["test"]["prometheus"])
    states = {line.split()[1] for line in result["doctor"] if line.startswith("prometheus ")}
    assert states == {"unknown"}, "only the collectors have the token"
    reported = [line for line in result["doctor"] if line.startswith("services warning ")]
    assert any("401, the credentials are rejected" in line for line in reported)
    before, after = accepted["pods"]
    assert before == after
    assert accepted["test"]["passed"]
