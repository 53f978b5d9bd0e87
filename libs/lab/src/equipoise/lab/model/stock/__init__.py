"""The stock kube-scheduler 1.36, as far as resources, taints, spreading and anti-affinity decide. Pure.

Left out, as a trace holds nothing that they could tell nodes apart by: NodeAffinity, ImageLocality, InterPodAffinity as
a score, volumes, ports, spreading over zones (they add the same to every node); preemption, nominated nodes, and the
reuse of sorted nodes for identical pods (which any extender turns off). Nodes are looked at one after the other where
kube-scheduler has 16 workers, whose order nobody can foretell.
Source: kubernetes v1.36, pkg/scheduler.
"""

from equipoise.lab.model.stock.anti_affinity import Neighbours
from equipoise.lab.model.stock.placements import Placements
from equipoise.lab.model.stock.pod_kind import PodKind, pod_kind
from equipoise.lab.model.stock.resources import FitScore, balanced_allocation, needed
from equipoise.lab.model.stock.scheduler import Extender, StockScheduler, nodes_to_find
from equipoise.lab.model.stock.spreading import spread_scores
from equipoise.lab.model.stock.taints import disliked, kept_off, taint_scores

__all__ = [
    "Extender",
    "FitScore",
    "Neighbours",
    "Placements",
    "PodKind",
    "StockScheduler",
    "balanced_allocation",
    "disliked",
    "kept_off",
    "needed",
    "nodes_to_find",
    "pod_kind",
    "spread_scores",
    "taint_scores",
]
