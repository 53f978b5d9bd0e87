"""The usage of a fake pod as a curve in its annotations, which kwok evaluates at every scrape.

The annotations are part of the pod template: a replay needs no API writes, and a replacement pod has the same curve.
`kwok.yaml` contains the expression that reads them.
"""

from collections.abc import Sequence

PREFIX = "usage.testbed/"
MAXIMUM_BYTES = 256 * 1024  # Kubernetes' limit on all annotations of one object


def usage_annotations(
    cpu_milli: Sequence[float], memory_mib: Sequence[float], step_seconds: int, epoch: int
) -> dict[str, str]:
    """A cyclic curve for *each container* of a pod: step 0 begins at Unix second `epoch`."""
    if not cpu_milli or len(cpu_milli) != len(memory_mib):
        raise ValueError(
            f"a usage curve needs as many steps of cpu ({len(cpu_milli)}) as of memory ({len(memory_mib)}), "
            "and at least one"
        )
    if step_seconds < 1:
        raise ValueError(f"a usage curve needs steps of at least 1 second, not {step_seconds}")
    annotations = {
        f"{PREFIX}epoch": str(epoch),
        f"{PREFIX}step-seconds": str(step_seconds),
        f"{PREFIX}period-seconds": str(step_seconds * len(cpu_milli)),
    }
    for step, (cpu, memory) in enumerate(zip(cpu_milli, memory_mib, strict=True)):
        annotations[f"{PREFIX}cpu-{step}"] = f"{_decimal(cpu)}m"
        annotations[f"{PREFIX}memory-{step}"] = f"{_decimal(memory)}Mi"
    size = sum(len(key) + len(value) for key, value in annotations.items())
    if size > MAXIMUM_BYTES:
        raise ValueError(f"a usage curve of {len(cpu_milli)} steps takes {size} bytes, over {MAXIMUM_BYTES}")
    return annotations


def constant_usage_annotations(cpu_milli: float, memory_mib: float) -> dict[str, str]:
    """Constant usage of each container. A usage curve takes precedence."""
    return {
        "kwok.x-k8s.io/usage-cpu": f"{_decimal(cpu_milli)}m",
        "kwok.x-k8s.io/usage-memory": f"{_decimal(memory_mib)}Mi",
    }


def _decimal(value: float) -> str:
    """At most three decimals and no exponent: 1e+06Mi is not a valid Quantity."""
    return f"{value:.3f}".rstrip("0").rstrip(".")
