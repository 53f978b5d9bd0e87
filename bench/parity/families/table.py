"""The families by name."""

from collections.abc import Mapping

from bench.parity.families.configurations import ConfiguredCluster
from bench.parity.families.handwritten import HandwrittenCluster
from bench.parity.families.lasting_victims import LastingVictimsCluster
from bench.parity.families.many_nodes import ManyNodesCluster
from bench.parity.families.many_pods import ManyPodsCluster
from bench.parity.families.node_changes import NodeChangesCluster
from bench.parity.families.resources import ResourcesCluster
from bench.parity.families.selectors import SelectorsCluster
from bench.parity.families.volumes import VolumesCluster
from bench.parity.generator import ClusterGenerator

FAMILIES: Mapping[str, type[ClusterGenerator]] = {
    family.name: family
    for family in (
        ClusterGenerator,
        VolumesCluster,
        LastingVictimsCluster,
        ManyPodsCluster,
        ManyNodesCluster,
        ConfiguredCluster,
        NodeChangesCluster,
        ResourcesCluster,
        SelectorsCluster,
        HandwrittenCluster,
    )
}
