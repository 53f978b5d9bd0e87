"""Writes the taint of nodes that consolidation is emptying, and removes it from all others.

Each node is written by one replica. A node with the taint is found in two ways, so that it is removed also after a
restart: every replica remembers the nodes of the messages that it has received, and looks at each node that it reads
for the node's annotation.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import NoReturn

import msgspec
import structlog
from prometheus_client import Gauge

from equipoise.annotator.decisions.taint_change import TaintChange, taint_change
from equipoise.annotator.decisions.write_decision import retry_backoff
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.annotator.shell.object_client import ObjectClient
from equipoise.contracts.kubernetes.nodes.consolidation_taint import is_consolidation
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.load.emptying import Emptying
from equipoise.contracts.messages.consolidation import MAX_VALIDITY, NodeBeingEmptied, NodesBeingEmptied
from equipoise.runtime.kubernetes.client import NODES, Conflict, KubeError, NotFound
from equipoise.runtime.kubernetes.paced_requests import PacedRequests
from equipoise.runtime.process.lifecycle import Runtime

log = structlog.get_logger()

CHECK_PERIOD = 5.0
"""Seconds between two checks of all known nodes."""

READ_PERIOD = 60.0
"""Seconds after which a node that is being emptied is read again: somebody may have removed the taint."""

LONGEST_BACKOFF = 300.0
"""Seconds after which a refused write is tried again at the latest."""

MAX_ATTEMPTS = 3
"""Attempts to write to a node that changes meanwhile."""


class _KnownNode(msgspec.Struct, kw_only=True):
    """A node that has the taint, or may have it."""

    named_at: float
    """The last time at which a message named the node, or the taint was seen on it (monotonic seconds)."""

    written: NodeBeingEmptied | None = None
    """What the taint of the node is known to state. None: it is unknown."""

    not_before: float = 0.0
    """The end of the backoff, or of the time for which the taint needs not be read again (monotonic seconds)."""

    backoff: float = 0.0
    problem: str = ""


class TaintWriter:
    """The taint of the nodes that are being emptied."""

    def __init__(
        self, runtime: Runtime[AnnotatorSettings], *, is_ours: Callable[[str], bool], client: ObjectClient
    ) -> None:
        """`is_ours`: whether this replica writes what has this key. `client`: its rates and results are shared, and the
        nodes that it reads may have the taint."""
        self._kube, self._clock, self._health = runtime.kube, runtime.clock, runtime.health
        self._is_ours = is_ours
        self._reads, self._writes, self._results = client.reads, client.writes, client.results
        self._requests = PacedRequests(runtime.clock, self._reads, self._writes)
        client.on_node = self._on_node
        self._emptying = Emptying()
        self._received, self._checking = asyncio.Event(), asyncio.Lock()
        self._known: dict[str, _KnownNode] = {}
        """The nodes that have the taint, or may have it, by name."""

        tainted = Gauge(
            "equipoise_annotator_nodes_emptying",
            "Nodes to which this replica has written the taint of consolidation.",
            registry=runtime.metrics,
        )
        tainted.set_function(lambda: float(sum(node.written is not None for node in list(self._known.values()))))

    def on_emptying(self, message: NodesBeingEmptied, now: float) -> bool:
        accepted = self._emptying.on_message(message, now)
        if accepted:
            for node in message.nodes:
                self._name(node.node)
            self._received.set()
        return accepted

    def _on_node(self, node: Node) -> None:
        """A node that was read for another reason."""
        if any(map(is_consolidation, node.spec.taints)):
            self._name(node.metadata.name)

    def _name(self, name: str) -> None:
        now = self._clock.monotonic()
        self._known.setdefault(name, _KnownNode(named_at=now)).named_at = now

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._check_regularly())
            tasks.create_task(self._check_after_messages())

    async def _check_regularly(self) -> NoReturn:
        while True:
            await self._check()
            await self._clock.sleep(CHECK_PERIOD)

    async def _check_after_messages(self) -> NoReturn:
        while True:
            await self._received.wait()
            await self._check()

    async def _check(self) -> None:
        async with self._checking:
            self._received.clear()
            await self._check_all()

    async def _check_all(self) -> None:
        emptied = {node.node: node for node in self._emptied().values()}
        for name, known in list(self._known.items()):
            wanted, now = emptied.get(name), self._clock.monotonic()
            if not self._is_ours(_key(name)):
                known.written, known.problem, known.not_before = None, "", 0.0  # another replica writes it now
                if now - known.named_at > MAX_VALIDITY:
                    del self._known[name]
            elif now >= known.not_before or (known.written is not None and known.written != wanted):
                await self._update(name, known)
        problem = next((known.problem for known in self._known.values() if known.problem), None)
        self._health.set_problem("taints", problem)

    async def _update(self, name: str, known: _KnownNode) -> None:
        """Makes the taint of a node what it should be, or remembers why that failed."""
        try:
            known.written = await self._write(name)
            known.backoff, known.problem = 0.0, ""
            known.not_before = self._clock.monotonic() + READ_PERIOD
            if known.written is None:
                self._known.pop(name, None)
        except NotFound:
            self._known.pop(name, None)
        except (KubeError, TimeoutError) as error:
            self._on_error(name, known, f"the taint of node {name} cannot be written: {error}")
        except Exception as error:  # whatever it is, the other nodes get their taints
            log.warning("unexpected error", node=name, exc_info=True)
            self._on_error(name, known, f"the taint of node {name}: {type(error).__name__}: {error}")

    async def _write(self, name: str) -> NodeBeingEmptied | None:
        """Reads a node, and writes or removes the taint. Returns what the taint states; None if the node has none.

        Raises KubeError and TimeoutError.
        """
        for attempt in range(1, MAX_ATTEMPTS + 1):
            await self._reads.acquire(lambda: True)
            node = await self._requests.send(self._kube.get(NODES, name))
            # What is wanted may change while the write waits.
            change = await self._writes.acquire(partial(self._change, node))
            if change is None:
                break
            try:
                await self._requests.send(self._kube.set_taint(node, change.taint, present=change.present))
            except Conflict:  # its kubelet has written the node since
                if attempt == MAX_ATTEMPTS:
                    raise
                continue
            self._results.labels("Node", "written").inc()
            log.info("taint written" if change.present else "taint removed", node=name, taint=change.taint)
            break
        return self._emptied().get(node.metadata.uid)

    def _change(self, node: Node) -> TaintChange | None:
        return taint_change(node, self._emptied())

    def _emptied(self) -> Mapping[str, NodeBeingEmptied]:
        return self._emptying.nodes(self._clock.now())

    def _on_error(self, name: str, known: _KnownNode, problem: str) -> None:
        self._results.labels("Node", "failed").inc()
        known.written, known.problem = None, problem
        known.backoff = retry_backoff(known.backoff, CHECK_PERIOD, LONGEST_BACKOFF)
        known.not_before = self._clock.monotonic() + known.backoff


def _key(node: str) -> str:
    """The key by which a replica is chosen: that of the node's annotation, for which this replica reads the node."""
    return f"node/{node}"
