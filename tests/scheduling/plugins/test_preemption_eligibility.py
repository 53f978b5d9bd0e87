"""DefaultPreemption: whether a pod that was nominated earlier may remove more pods."""

import random

from scheduling.pods import a_node, a_pod

from equipoise.contracts.kubernetes.objects.metadata import Condition
from equipoise.scheduling import ClusterScheduler
from equipoise.scheduling.framework.status import PluginStatus, unresolvable, unschedulable
from equipoise.scheduling.plugins.default_preemption import NOT_HELPFUL, TERMINATING, DefaultPreemption

ENDING = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")


def message(status: PluginStatus | None) -> str:
    """Of preemption; the nominated node, on which a victim terminates, has been refused with this status."""
    cluster = ClusterScheduler(random.Random(1))
    cluster.put(a_node("a"))
    cluster.put(a_pod("victim", node_name="a", terminating=True, status={"conditions": [ENDING]}).pod)
    pod = a_pod("new", priority=1, status={"nominated_node_name": "a"})
    framework = cluster.schedulers["default-scheduler"].framework
    plugin = next(each for each in framework.plugins("postFilter") if isinstance(each, DefaultPreemption))
    refused = {} if status is None else {0: status}
    state = cluster.decide(pod).state
    assert state is not None
    return "".join(plugin.post_filter(state, pod, cluster.snapshot, refused).status.reasons)


def test_while_victims_terminate_on_the_nominated_node_no_more_are_removed() -> None:
    assert TERMINATING in message(unschedulable("full"))


def test_unless_that_node_cannot_be_helped_any_more() -> None:
    """A node without a status, as after PreFilter has refused all, is such a node."""
    assert NOT_HELPFUL in message(unresolvable("cordoned"))
    assert NOT_HELPFUL in message(None)
