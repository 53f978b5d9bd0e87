"""What `equipoise doctor pressure` finds."""

from builders import NOW

from equipoise.cli.doctor.checks.measurements.pressure import pressure_findings
from equipoise.cli.doctor.environment import Finding
from equipoise.collector.decisions.pressure.pressure_readings import PressureReading, without_unit
from equipoise.contracts.messages.values.pressure import Pressure

ZERO = PressureReading(sampled_at=NOW, waiting=Pressure(cpu=0.0, memory=0.0, io=0.0))
WAITING = PressureReading(sampled_at=NOW, waiting=Pressure(cpu=0.6))


def finding(*readings: PressureReading, nodes: int = 3, needed: bool = False) -> Finding:
    named = {f"node-{number}": reading for number, reading in enumerate(readings)}
    (only,) = pressure_findings(named, nodes, needed=needed)
    return only


def test_measured_pressure_is_ok_with_the_nodes_that_wait_most() -> None:
    found = finding(WAITING, ZERO)

    assert "ok" == found.state
    assert "measured on 2 nodes; not measured on 1 node; processes wait more than half of the time on node-0" == (
        found.message
    )


def test_zeros_on_all_nodes_are_suspicious() -> None:
    assert "warning" == finding(ZERO, ZERO, ZERO).state
    assert "exactly 0 in all resources on all 3 nodes" in finding(ZERO, ZERO, ZERO).message


def test_a_wrong_unit_names_its_nodes() -> None:
    found = finding(ZERO, without_unit(NOW, "cpu waits 431 s per second"))

    assert "warning" == found.state
    assert "1 of 2 nodes (node-1)" in found.message
    assert "431" in found.message


def test_missing_pressure_matters_only_with_a_threshold() -> None:
    assert "ok" == finding().state
    assert "warning" == finding(needed=True).state
    assert "thresholds.pressure has no effect" in finding(needed=True).message
