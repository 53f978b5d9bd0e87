"""The lines of findings."""

import pytest
from cli.narrow import printed

from equipoise.cli.doctor.environment import Finding
from equipoise.cli.doctor.finding_lines import MAX_ALIKE, finding_lines


def lines(findings: list[Finding], width: int) -> list[str]:
    def show(to: object) -> None:
        for line in finding_lines(findings):
            to.print(line)  # type: ignore[attr-defined]  a Console

    return [line.rstrip() for line in printed(show, width).splitlines()]


def test_what_to_do_has_a_line_of_its_own_beside_the_message() -> None:
    finding = Finding("warning", "image", "no image is published", "build one, and push it")

    assert lines([finding], 100) == ["warning  image: no image is published", "         → build one, and push it"]


def test_a_narrow_terminal_folds_the_text_beside_the_state() -> None:
    finding = Finding("error", "Prometheus", "several servers: choose one with\n  --prometheus http://a")

    assert lines([finding], 40) == [
        "error    Prometheus: several servers:",
        "         choose one with",
        "           --prometheus http://a",
    ]


@pytest.mark.parametrize("more", [0, 2])
def test_many_findings_that_need_the_same_are_counted(more: int) -> None:
    findings = [Finding("ok", f"node n{number}", "known") for number in range(MAX_ALIKE + more)]

    shown = lines(findings, 100)

    assert len(shown) == MAX_ALIKE + bool(more)
    assert (shown[-1] == f"         and {more} more (-o json has all)") == bool(more)
