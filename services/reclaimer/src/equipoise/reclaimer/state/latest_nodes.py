"""The latest placement and utilization of every node."""

from equipoise.contracts.load.latest import supersedes, supersedes_measurement
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization


class LatestNodes:
    """Older messages that arrive late are dropped."""

    def __init__(self) -> None:
        self.placements: dict[str, NodePlacement] = {}
        self.utilization: dict[str, NodeUtilization] = {}

    def on_placement(self, message: NodePlacement) -> None:
        if not supersedes(message, self.placements.get(message.node)):
            return
        if message.removed:
            self.placements.pop(message.node, None)
            self.utilization.pop(message.node, None)
        else:
            self.placements[message.node] = message

    def on_utilization(self, message: NodeUtilization) -> None:
        if supersedes_measurement(message, self.utilization.get(message.node)):
            self.utilization[message.node] = message
