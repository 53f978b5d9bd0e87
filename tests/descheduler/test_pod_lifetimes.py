"""When pods were placed, started and left."""

import msgspec
from builders import NOW
from descheduler.snapshots import a_pod, nodes_of

from equipoise.contracts.kubernetes import objects
from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.state.pod_lifetimes import PodLifetimes


def test_an_observed_change_has_the_time_of_the_observation() -> None:
    """The API server has whole seconds, and a compressed window is not much longer."""
    lifetimes, waiting, bound = PodLifetimes(), a_pod(node=""), a_pod()
    pending = msgspec.structs.replace(waiting, status=objects.PodStatus(phase="Pending"))
    starting = msgspec.structs.replace(bound, status=objects.PodStatus(phase="Pending"))
    lifetimes.on_change(None, pending, usage=Resources(), now=NOW)
    lifetimes.on_change(pending, starting, usage=Resources(), now=NOW + 0.25)
    lifetimes.on_change(starting, bound, usage=Resources(), now=NOW + 0.75)

    lifetime = lifetimes.lifetime(bound, Resources())

    assert lifetime is not None
    assert (lifetime.placed_at, lifetime.running_since) == (NOW + 0.25, NOW + 0.75)


def test_finished_pods_have_left() -> None:
    """A pod that completed uses nothing, though it is still listed."""
    lifetimes, pod = PodLifetimes(), a_pod()
    done = msgspec.structs.replace(pod, status=objects.PodStatus(phase="Succeeded"))
    lifetimes.on_change(None, pod, usage=Resources(), now=NOW)
    lifetimes.on_change(pod, done, usage=Resources(cpu=1.0), now=NOW + 5)
    lifetimes.on_change(done, None, usage=Resources(), now=NOW + 50)

    assert [(departure.node, departure.gone_at) for departure in lifetimes.departures()] == [("node-a", NOW + 5)]
    assert list(nodes_of(done)["node-a"].pods) == []
    lifetimes.prune(before=NOW + 5)
    assert list(lifetimes.departures()) == []
