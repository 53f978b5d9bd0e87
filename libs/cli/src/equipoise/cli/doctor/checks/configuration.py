"""Checks that the configuration of each service is known, the same for all replicas, and equal to the given file."""

from collections.abc import Iterable

from equipoise.cli.doctor.environment import Environment, Finding, State
from equipoise.cli.effective.comparison import differences, file_lines, several_lines, shared_lines
from equipoise.cli.effective.running import RunningConfiguration, not_known, running_configurations
from equipoise.contracts.bus.subjects import SERVICES

ROLLOUT_FIX = "wait for the rollout, or restart the older replica"
FILE_FIX = "apply the file and restart what does not read it again (`equipoise up` reads it at its start only)"
SERVICE_FIX = "check that it runs, with `equipoise tap configuration`; earlier versions do not publish it"


async def configuration(environment: Environment) -> list[Finding]:
    if isinstance(environment.effective, str):
        return [Finding("unknown", "services", environment.effective)]
    now, findings = environment.clock.now(), []
    all_running: list[RunningConfiguration] = []
    for service in SERVICES:
        replicas = running_configurations(environment.effective, service, now)
        all_running += replicas
        if not replicas:
            if service != "annotator":  # the annotator is optional
                findings.append(Finding("unknown", service, not_known(service), SERVICE_FIX))
            continue
        for replica in replicas:
            state: State = "ok" if replica.current else "warning"
            fix = "" if replica.current else SERVICE_FIX
            findings.append(Finding(state, service, f"{replica.named}, {replica.age_text(now)}", fix))
        if len(replicas) > 1:
            findings.append(Finding("warning", service, _joined(several_lines(replicas)), ROLLOUT_FIX))
        if environment.file is not None:
            for replica in replicas:
                if differences(environment.file, replica.settings):
                    text = _joined(file_lines("the file", environment.file, [replica]))
                    findings.append(Finding("warning", service, text, FILE_FIX))
    if lines := list(shared_lines(all_running)):
        findings.append(Finding("warning", "services", _joined(lines), ROLLOUT_FIX))
    return findings


def _joined(lines: Iterable[str]) -> str:
    first, *others = (line.strip() for line in lines)
    return f"{first} {'; '.join(others)}"
