"""The options of a demo, and its trace."""

from pathlib import Path

import msgspec

from equipoise.cli.demo.colocation.run import HOURS
from equipoise.cli.demo.configuration import Placement
from equipoise.cli.demo.example import STEPS, example_trace
from equipoise.cli.demo.rebalance.trace import with_constant_usage
from equipoise.cli.demo.surge.workloads import with_single_replicas
from equipoise.cli.exit_codes import InvalidInput
from equipoise.contracts.bus.subjects import SERVICES, ServiceName
from equipoise.lab.formats import TraceError, load_trace
from equipoise.lab.model.trace import Trace


class DemoOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a demo. `make demo` uses the defaults."""

    trace_folder: Path | None = None
    seed: int = 1
    nodes: int = 40
    steps: int | None = None
    """Steps of the example's day; None: 96 quarters of an hour."""

    step_seconds: int = 4
    """Real seconds per step; the time factor is the trace's own step divided by this."""

    burst_pods: int = 100
    placement: Placement = "extender"
    services: tuple[ServiceName, ...] = SERVICES
    neutral: bool = False
    """Whether the scorer responds with neutral scores only."""

    colocation: bool = False
    """Whether the reclaimer runs too, and a queue of batch pods that never ends."""

    surge: bool = False
    """Whether pods are moved without a gap, single replicas among them."""

    rebalance: bool = False
    """Whether a campaign makes all moves. With `surge`."""

    batch_hours: float = HOURS
    """Hours of the trace that each batch pod runs."""

    keep: bool = False


def demo_trace(options: DemoOptions) -> Trace:
    """The example, or the nodes of the given trace. Raises InvalidInput."""
    if options.trace_folder is None:
        example = example_trace(options.seed, nodes=options.nodes, steps=options.steps or STEPS)
        example = with_constant_usage(example) if options.rebalance else example
        return with_single_replicas(example) if options.surge else example
    try:
        return load_trace(options.trace_folder, nodes=options.nodes, seed=options.seed)
    except TraceError as error:
        raise InvalidInput(str(error)) from error
