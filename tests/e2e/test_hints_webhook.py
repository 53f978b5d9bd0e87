"""The webhook of placement hints on a real API server: it gives each pod what the admission policy gives it."""

import base64
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from cluster_fixtures import StartCluster, why_no_mutating_policies
from deployment.base import NAMESPACE
from e2e.hinted_pods import AFFINITIES, HINTED_KEYS, UNTOUCHED, Document, pod_of
from e2e.running_webhook import RunningWebhook, WebhookFiles, running_webhook, service
from e2e.test_placement_hints import HINT, POLICIES, UNLISTED, WEB, Pods, hints_object, install

from equipoise.contracts.hints.policy import HINTED, NAME
from equipoise.contracts.hints.webhook import configuration, webhooks
from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.kubernetes.client import Kube
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.api import Api, ApiError
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import namespace, node

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"

ODD_OWNERS: Mapping[str, Document] = {
    "Job with a line feed after eight digits": {"owner": "Job/backup-29123456\n"},
    "Job with two lines": {"owner": "Job/back\nup-29123456"},
    "Job with nine digits": {"owner": "Job/backup-291234567"},
    "Job with other digits": {"owner": "Job/backup-２９１２３４５６"},
    "Job of a name of digits": {"owner": "Job/-29123456"},
    "ReplicaSet with an empty hash": {"owner": "ReplicaSet/web-", "labels": {"pod-template-hash": ""}},
    "ReplicaSet that is only its hash": {"owner": "ReplicaSet/-7d4b9c", "labels": {"pod-template-hash": "7d4b9c"}},
    "ReplicaSet of another hash": {"owner": "ReplicaSet/web-7d4b9c", "labels": {"pod-template-hash": "5f6"}},
    "ReplicaSet with both hashes": {
        "owner": "ReplicaSet/web-7d4b9c",
        "labels": {"pod-template-hash": "7d4b9c", "rollouts-pod-template-hash": "5f6"},
    },
    "ReplicaSet with the hash of a rollout": {
        "owner": "ReplicaSet/canary-5f6",
        "labels": {"pod-template-hash": "7d4b9c", "rollouts-pod-template-hash": "5f6"},
    },
    "StatefulSet with a hash": {"owner": "StatefulSet/db-7d4b9c", "labels": {"pod-template-hash": "7d4b9c"}},
    "a name in another alphabet": {"owner": "CloneSet/größe"},
}
"""Owners that no controller writes, but a client may."""

ODD_PODS: Mapping[str, Document] = {
    **{f"affinity: {name}": WEB | {"affinity": value} for name, value in AFFINITIES.items()},
    "node affinity without terms": WEB | {"affinity": {"nodeAffinity": {}}},
    "no annotations and no labels": {"owner": "StatefulSet/db"},
    "annotations of the user": WEB | {"annotations": {"example.com/a": "~1/ü"}},
    "a time of the client before the request": WEB | {"written_at": "2020-01-01T00:00:00Z"},
    "a time of the client after the hints": WEB | {"written_at": "2040-01-01T00:00:00Z"},
    "only preferred nodes": {"owner": "StatefulSet/preferring"},
    "only avoided nodes": {"owner": "StatefulSet/avoiding"},
}

CASES: Mapping[str, Document] = {**HINTED_KEYS, **UNTOUCHED, **ODD_OWNERS, **ODD_PODS}

KEYS = (
    *HINTED_KEYS, "DaemonSet.agent", "Node.alpha", "Deployment.", "Deployment.web-7d4b9c", "CronJob.",
    "ReplicaSet.web-", "Job.backup-291234567",
    "CronJob.backup\n", "Job.backup-29123456\n", "CronJob.back\nup", "Job.back\nup-29123456",
    "CronJob.backup-２９１２３４５６", "Job.backup-２９１２３４５６", "CronJob.backup", "Job.-29123456",
    "ReplicaSet.web-7d4b9c", "StatefulSet.db-7d4b9c", "StatefulSet.db", "CloneSet.größe", "Rollout.web",
)  # fmt: skip
"""Hints exist for all that a mistake about a key could lead to."""


def all_hints() -> Document:
    hints: Document = dict.fromkeys(KEYS, HINT)
    hints["StatefulSet.preferring"] = {"prefer": HINT["prefer"]}
    hints["StatefulSet.avoiding"] = {"avoid": HINT["avoid"]}
    hints["StatefulSet.broken"] = hints["StatefulSet.earlier-broken"] = UNLISTED
    return hints_object("shop", hints)


def comparable(pod: Document) -> Document:
    """Without what differs between any two creations: UID and times."""
    metadata = dict(pod["metadata"])
    del metadata["uid"], metadata["creationTimestamp"]
    metadata["managedFields"] = [each | {"time": ""} for each in metadata["managedFields"]]
    status = pod["status"] | {"conditions": []}
    return pod | {"metadata": metadata, "status": status}


async def created(api: Api, place: str) -> dict[str, Any]:
    """Each case as the API server would store it, or its refusal."""
    found: dict[str, Any] = {}
    for name, fields in CASES.items():
        pod = pod_of(place, **fields)
        pod["spec"]["automountServiceAccountToken"] = False  # its volume would have a random name
        try:
            created = await api.request("POST", f"/api/v1/namespaces/{place}/pods?dryRun=All", pod)
            found[name] = comparable(created)
        except ApiError as error:
            found[name] = str(error)
    return found


@pytest.fixture(scope="module")
def has_policy(pytestconfig: pytest.Config) -> bool:
    """Whether the API server has MutatingAdmissionPolicies."""
    return not why_no_mutating_policies(pytestconfig.getoption("kubernetes"))


@pytest.fixture(scope="module")
async def cluster(start_cluster: StartCluster, has_policy: bool) -> Cluster:
    cluster = start_cluster()
    await cluster.add_nodes([node(name) for name in ("alpha", "beta", "gamma", "delta")])
    await cluster.apply([namespace(name) for name in ("shop", "quiet", NAMESPACE)])
    await install(cluster, "policy.yaml" if has_policy else "")
    await cluster.apply([all_hints()])
    return cluster


@pytest.fixture(scope="module")
async def api(cluster: Cluster) -> AsyncIterator[Api]:
    async with cluster.api() as api:
        yield api


@pytest.fixture(scope="module")
async def kube(cluster: Cluster) -> AsyncIterator[Kube]:
    settings = Kubernetes(kubeconfig=str(cluster.kubeconfig))
    async with connect_kube(settings, "annotator", SystemClock()) as kube:
        yield kube


@pytest.fixture(scope="module")
async def before_webhook(api: Api, has_policy: bool) -> dict[str, Any]:
    """By the policy, which is deleted afterwards; empty where the API server has none."""
    if not has_policy:
        return {}
    pods = Pods(api)
    await pods.until(True, "shop", **WEB)
    found = await created(api, "shop")
    await api.request("DELETE", f"{POLICIES}/{NAME}")
    await pods.until(False, "shop", **WEB)
    await api.apply([all_hints()])  # the policy owns none that it would take with it
    return found


@pytest.fixture(scope="module")
def by_policy(mutating_policies: None, before_webhook: dict[str, Any]) -> dict[str, Any]:
    return before_webhook


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> WebhookFiles:
    return WebhookFiles(tmp_path_factory.mktemp("webhook"), NAMESPACE)


@pytest.fixture(scope="module")
async def webhook(
    cluster: Cluster, api: Api, kube: Kube, files: WebhookFiles, before_webhook: dict[str, Any]
) -> AsyncIterator[RunningWebhook]:
    """When the API server calls it, in the namespaces shop and quiet."""
    port = cluster.free_port()
    entries = webhooks(ca=files.ca, namespace=NAMESPACE, port=port, hinted=["shop", "quiet"])
    async with running_webhook(kube, files.settings(port)) as webhook:
        await api.apply([service(NAMESPACE), configuration() | {"webhooks": entries}])
        await Pods(api).until(True, "shop", **WEB)
        yield webhook


@pytest.fixture(scope="module")
async def by_webhook(api: Api, webhook: RunningWebhook) -> dict[str, Any]:
    return await created(api, "shop")


@pytest.mark.parametrize("case", CASES)
def test_policy_and_webhook_give_the_same_pod(by_policy: dict[str, Any], by_webhook: dict[str, Any], case: str) -> None:
    """Byte for byte, but for UID and times."""
    assert by_policy[case] == by_webhook[case]


def test_the_cases_are_hinted_and_not_hinted(by_webhook: dict[str, Any]) -> None:
    """So that a webhook that does nothing, or a server that refuses all, is no success."""
    hinted = {name for name, pod in by_webhook.items() if HINTED in pod["metadata"].get("annotations", {})}

    assert {*HINTED_KEYS} <= hinted
    assert not hinted - {"hinted already"} & {*UNTOUCHED}
    assert len(CASES) == len(by_webhook)


async def test_the_configuration_is_stored_as_it_is_written(api: Api, webhook: RunningWebhook) -> None:
    """The API server adds no field, so that a changed configuration is recognized."""
    found = await api.request("GET", f"{CONFIGURATIONS}/{NAME}")
    place = found["webhooks"][0]["clientConfig"]
    hinted = ["shop", "quiet"]

    assert found["webhooks"] == webhooks(
        ca=base64.b64decode(place["caBundle"]), namespace=NAMESPACE, port=place["service"]["port"], hinted=hinted
    )


async def test_pods_that_cannot_get_a_hint_do_not_reach_the_webhook(api: Api, webhook: RunningWebhook) -> None:
    """The API server sorts them out: bare pods, placed ones, those of DaemonSets, and those of other namespaces."""
    results = ("hinted", "no_controller", "no_hints_in_namespace", "expired", "no_hint_of_workload", "unlisted_node")
    before = sum(map(webhook.count, results))
    skipped = {name: fields for name, fields in UNTOUCHED.items() if "workload" not in name and "names of" not in name}
    for fields in skipped.values():
        await Pods(api).create("shop", **fields)
    for place in ("kube-system", NAMESPACE, "default"):
        await Pods(api).create(place, **WEB)

    assert len(skipped) > 8
    assert before == sum(map(webhook.count, results))


async def test_a_namespace_whose_hints_are_gone_gets_none(api: Api, webhook: RunningWebhook) -> None:
    before = webhook.count("no_hints_in_namespace")
    pod = await Pods(api).create("quiet", **WEB)

    assert "affinity" not in pod["spec"]
    assert before + 1 == webhook.count("no_hints_in_namespace")


async def test_new_hints_reach_the_next_pod(api: Api, webhook: RunningWebhook) -> None:
    """Within the time of a watch, and so do changed ones."""
    pods = Pods(api)
    await api.apply([hints_object("quiet", {"Deployment.web": HINT})])
    await pods.until(True, "quiet", **WEB)
    await api.request("DELETE", f"/apis/equipoise.dev/v1alpha1/namespaces/quiet/placementhints/{NAME}")
    await pods.until(False, "quiet", **WEB)
