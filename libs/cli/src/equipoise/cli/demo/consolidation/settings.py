"""The settings of Equipoise with which it empties nodes in compressed time."""

from equipoise.cli.demo.configuration import COMPRESSION, SURGE, Difference

CONSOLIDATION = (
    *COMPRESSION,
    SURGE,
    Difference(
        settings="thresholds.high.cpu 80, .memory 90",
        reason="fewer nodes are fuller nodes",
        document={"thresholds": {"high": {"cpu": 80, "memory": 90}}},
    ),
    Difference(
        settings="descheduler.consolidation.mode act, .maxNodes 2, .emptyingTimeout and .removalTimeout 12h",
        reason="how long a pod takes to move, and Karpenter to remove a node, is not compressed",
        document={
            "descheduler": {
                "consolidation": {"mode": "act", "maxNodes": 2, "emptyingTimeout": "12h", "removalTimeout": "12h"}
            }
        },
    ),
    Difference(
        settings="namespaces.exclude without that of the demo",
        reason="a node is emptied whole",
        document={"namespaces": {"exclude": ["kube-system", "kube-public", "kube-node-lease", "equipoise-system"]}},
    ),
)
