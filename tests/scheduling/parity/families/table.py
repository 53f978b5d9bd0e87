"""The families by name."""

from collections.abc import Mapping

from scheduling.parity.families.configurations import ConfiguredCluster
from scheduling.parity.families.handwritten import HandwrittenCluster
from scheduling.parity.families.lasting_victims import LastingVictimsCluster
from scheduling.parity.families.many_nodes import ManyNodesCluster
from scheduling.parity.families.many_pods import ManyPodsCluster
from scheduling.parity.families.node_changes import NodeChangesCluster
from scheduling.parity.families.resources import ResourcesCluster
from scheduling.parity.families.selectors import SelectorsCluster
from scheduling.parity.families.volumes import VolumesCluster
from scheduling.parity.generator import ClusterGenerator

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
