"""A trace as a folder tells it, by names, and how it becomes one: silent workloads left out, gaps filled, numbered."""

import msgspec
import numpy as np

from equipoise.lab.formats.tables import Curves, TraceError
from equipoise.lab.model.trace import AntiAffinity, Array, Trace, TraceNode, TracePod, TraceWorkload, known_everywhere


class DraftPod(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    workload: str
    """Its key in the draft."""

    node: str = ""


class DraftRule(msgspec.Struct, frozen=True, kw_only=True):
    """Workloads by their keys in the draft. A rule on a workload that the trace does not keep is dropped."""

    beside: str
    limited: str
    most: int


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    nodes: tuple[TraceNode, ...]
    workloads: dict[str, TraceWorkload]
    pods: list[DraftPod]
    rules: list[DraftRule]
    seconds_per_step: float
    starts_at: float = 0.0
    notes: tuple[str, ...] = ()

    def trace(self, cpu: Curves, memory: Curves) -> Trace:
        """Both have a row of every workload. Raises TraceError when they differ in length.

        A workload that nothing is known of can neither use nothing nor take a guess: it is left out, and noted.
        """
        if cpu.steps != memory.steps:
            raise TraceError(
                f"{memory.path}, line 1: {memory.steps} steps where {cpu.path.name} has {cpu.steps}; make them as many"
            )
        kept = [key for key in self.workloads if is_known(cpu.rows[key]) and is_known(memory.rows[key])]
        number = {key: index for index, key in enumerate(kept)}
        return Trace(
            name=self.name,
            nodes=self.nodes,
            workloads=tuple(self.workloads[key] for key in kept),
            pods=tuple(
                TracePod(name=pod.name, workload=number[pod.workload], node=pod.node)
                for pod in self.pods
                if pod.workload in number
            ),
            rules=tuple(
                AntiAffinity(beside=number[rule.beside], limited=number[rule.limited], most=rule.most)
                for rule in self.rules
                if rule.beside in number and rule.limited in number
            ),
            cpu_milli=filled(cpu, kept),
            memory_mib=filled(memory, kept),
            seconds_per_step=self.seconds_per_step,
            starts_at=self.starts_at,
            notes=(*self.notes, *self._left_out(number)),
        )

    def _left_out(self, kept: dict[str, int]) -> tuple[str, ...]:
        silent = [key for key in self.workloads if key not in kept]
        pods = sum(pod.workload not in kept for pod in self.pods)
        if not silent:
            return ()
        first = ", ".join(silent[:3]) + (", …" if len(silent) > 3 else "")
        return (
            f"left out, because nobody read their CPU or their memory: workloads {len(silent)} ({first}), pods {pods}",
        )


def is_known(row: Array) -> bool:
    return not bool(np.isnan(row).all())


def filled(curves: Curves, keys: list[str]) -> Array:
    """Workloads × steps without gaps."""
    whole = np.empty((len(keys), curves.steps))
    for index, key in enumerate(keys):
        row = curves.rows[key]
        whole[index] = known_everywhere([row.tolist()])[0] if np.isnan(row).any() else row
    return whole
