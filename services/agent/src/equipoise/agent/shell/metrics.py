"""The metrics of the agent in Prometheus' text format. The client library would take half of the agent's memory."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal

import msgspec

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Family(msgspec.Struct, frozen=True):
    """The series of one name."""

    kind: Literal["counter", "gauge"]
    text: str
    labels: tuple[str, ...] = ()


FAMILIES: Mapping[str, Family] = {
    "equipoise_agent_api_silence_seconds": Family(
        "gauge", "Seconds since the API server last sent the pods of the node; no series before the first time."
    ),
    "equipoise_agent_cpu_limit_cores": Family(
        "gauge", "What all best-effort pods may use together; no series without a limit."
    ),
    "equipoise_agent_cpu_requested_cores": Family(
        "gauge", "Σ batch-cpu and mid-cpu that the pods of the node request."
    ),
    "equipoise_agent_cpu_usage_cores": Family(
        "gauge", "CPU usage in the last round: of the node, all pods, best_effort pods.", ("group",)
    ),
    "equipoise_agent_evictions_total": Family(
        "counter",
        "Evictions of batch pods by reason (memory, cpu) and result: evicted, dry_run, blocked (429), gone, failed.",
        ("reason", "result"),
    ),
    "equipoise_agent_memory_used_ratio": Family("gauge", "Memory of the node in use: 1 − MemAvailable / MemTotal."),
    "equipoise_agent_pods": Family("gauge", "Pods of the node by band: mid, batch, free.", ("band",)),
    "equipoise_agent_pressure_ratio": Family(
        "gauge",
        "Share of the last round in which a latency-sensitive pod waited for CPU time: that of the pod that waited "
        "longest. No series where the kernel reports none.",
    ),
    "equipoise_agent_round_duration_seconds_total": Family("counter", "Time that all rounds together took."),
    "equipoise_agent_rounds_total": Family("counter", "Rounds: the groups of all pods are read and set."),
    "equipoise_agent_suppressed_seconds_total": Family(
        "counter",
        "Time in which all best-effort pods were limited together, by reason: pressure, threshold, or restart (a limit "
        "from before the agent started).",
        ("reason",),
    ),
    "equipoise_agent_values_reset_total": Family(
        "counter", "Values that another program had changed since the agent wrote them, by file.", ("file",)
    ),
    "equipoise_agent_writes_total": Family(
        "counter",
        "Writes by file and result: written, refused (error of the kernel), ignored (another value was read back).",
        ("file", "result"),
    ),
    "equipoise_build_info": Family("gauge", "What runs here.", ("service", "version", "configuration")),
    "equipoise_problem": Family("gauge", "1 for each problem that /readyz reports.", ("key",)),
    "equipoise_ready": Family("gauge", "1 when /readyz returns 200."),
    "equipoise_unreadable": Family(
        "gauge",
        "What cannot be read at present, by source: objects of the API server, messages, series. /readyz names it.",
        ("source",),
    ),
    "process_cpu_seconds_total": Family("counter", "CPU time of this process."),
    "process_open_fds": Family("gauge", "Open files of this process."),
    "process_resident_memory_bytes": Family("gauge", "Resident memory of this process."),
}
"""All that the agent exports."""


class Metrics:
    """The current values. The loop writes them, and the thread of the HTTP server renders them."""

    def __init__(self) -> None:
        self._values: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in FAMILIES}

    def set(self, name: str, value: float | None, **labels: str) -> None:
        """Set a value. An unknown one (None) has no series."""
        key = self._key(name, labels)
        if value is None:
            self._values[name].pop(key, None)
        else:
            self._values[name][key] = value

    def add(self, name: str, value: float = 1.0, **labels: str) -> None:
        key = self._key(name, labels)
        self._values[name][key] = self._values[name].get(key, 0.0) + value

    def get(self, name: str, **labels: str) -> float | None:
        return self._values[name].get(self._key(name, labels))

    @staticmethod
    def _key(name: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(labels[label] for label in FAMILIES[name].labels)

    def render(self) -> str:
        lines: list[str] = []
        for name, family in FAMILIES.items():
            lines += [f"# HELP {name} {family.text}", f"# TYPE {name} {family.kind}"]
            for label_values, number in sorted(self._values[name].items()):
                labels = ",".join(
                    f'{label}="{_escaped(value)}"' for label, value in zip(family.labels, label_values, strict=True)
                )
                lines.append(f"{name}{{{labels}}} {number!r}" if labels else f"{name} {number!r}")
        return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def process_usage(proc: str) -> dict[str, float]:
    """The usage of this process, by the names of the metrics."""
    usage = {"process_cpu_seconds_total": time.process_time()}
    with suppress(OSError, ValueError, IndexError), open(f"{proc}/self/statm", encoding="ascii") as file:
        usage["process_resident_memory_bytes"] = float(int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError):
        usage["process_open_fds"] = float(len(os.listdir(f"{proc}/self/fd")))
    return usage
