"""Installations without a Prometheus, with two of them, and with one that requires a token, in a restricted namespace.

`python -m e2e.real_nodes.sources` with tests/ in PYTHONPATH, as root. Its last line is a JSON document.
"""

import asyncio
import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml
from deployment.base import NAMESPACE
from e2e.real_nodes import prometheus_gateway
from e2e.real_nodes.installation import RELEASE, Installation, machine_load, new_cluster, note, print_result
from e2e.real_nodes.manifests import python_container
from e2e.real_nodes.virtual_node import until

from equipoise.cli.prepare.created_objects import DISCOVERED
from equipoise.runtime.configuration.discovered import REASON
from equipoise.testbed import objects
from equipoise.testbed.cluster import ClusterError
from equipoise.testbed.objects import Manifest
from equipoise.testbed.real_nodes.objects import METRICS_ROLE

FIRST, SECOND, TENANT = "metrics-a", "metrics-b", "tenant"
"""Namespaces with a Prometheus. The ServiceAccounts of two of them may read the metrics of nodes."""

PROMETHEUS = "prometheus"
TOKEN_SECRET = "prometheus-client"
SERVER_SECRET = "prometheus-token"
TOKENS = "/etc/tokens"
FOLDER = "/etc/prometheus-client"
VALUES: dict[str, Any] = {"nats": {"persistence": {"enabled": False}}}
WITH_TOKEN: dict[str, Any] = {
    "collector": {
        "extraVolumes": [{"name": "prometheus", "secret": {"secretName": TOKEN_SECRET}}],
        "extraVolumeMounts": [{"name": "prometheus", "mountPath": FOLDER, "readOnly": True}],
    },
    "config": {
        "collector": {
            "prometheus": {
                "url": f"http://{PROMETHEUS}.{FIRST}:{prometheus_gateway.PORT}",
                "profile": "kubelet",
                "bearerTokenFile": f"{FOLDER}/token",
            }
        }
    },
}
COLLECTORS = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io%2Fcomponent%3Dcollector"


def secret(name: str, namespace: str, token: str) -> Manifest:
    data = {"token": base64.b64encode(token.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "data": data}


def prometheus(namespace: str, url: str, *, trusted: bool, token: str = "") -> list[Manifest]:
    """A Prometheus with its Service. `trusted`: whether its account may read the metrics of nodes."""
    labels = {"app": PROMETHEUS}
    meta = {"name": PROMETHEUS, "namespace": namespace}
    container = python_container(prometheus_gateway, url, *([f"{TOKENS}/token"] if token else []))
    container |= {"readinessProbe": {"tcpSocket": {"port": prometheus_gateway.PORT}, "periodSeconds": 1}}
    spec: dict[str, Any] = {"serviceAccountName": PROMETHEUS, "containers": [container]}
    documents: list[Manifest] = [
        objects.namespace(namespace),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            "spec": {"selector": labels, "ports": [{"port": prometheus_gateway.PORT}]},
        },
    ]
    if token:
        container["volumeMounts"] = [{"name": "token", "mountPath": TOKENS}]
        spec["volumes"] = [{"name": "token", "secret": {"secretName": SERVER_SECRET}}]
        documents.append(secret(SERVER_SECRET, namespace, token))
    if trusted:
        group = "rbac.authorization.k8s.io"
        documents.append(
            {
                "apiVersion": f"{group}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": f"metrics-of-{namespace}"},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": METRICS_ROLE},
                "subjects": [{"kind": "ServiceAccount", **meta}],
            }
        )
    template = {"metadata": {"labels": labels}, "spec": spec}
    return [*documents, objects.deployment(PROMETHEUS, template, namespace=namespace)]


@dataclass(frozen=True, kw_only=True)
class Sources:
    """What an installation finds and uses."""

    installation: Installation

    async def start(self, namespace: str, *, trusted: bool, token: str = "") -> None:
        """Starts a Prometheus, and waits until it is ready."""
        url = self.installation.real.prometheus_url
        await self.installation.api.apply(prometheus(namespace, url, trusted=trusted, token=token))
        await self._rolled_out(namespace, PROMETHEUS)

    async def reason(self) -> str:
        """Why the installation chose its source."""
        stored = await self.installation.api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/{DISCOVERED}")
        text: str = stored["data"][REASON]
        return text

    async def search_again(self) -> str:
        """Has the installation search for a source again, as in docs/install.md. Returns the reason."""
        real = self.installation.real
        await self.installation.api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/configmaps/{DISCOVERED}")
        await self.installation.helm("upgrade", VALUES)
        await real.run(
            real.kubectl, "--namespace", NAMESPACE, "rollout", "restart", "deployment", "equipoise-collector"
        )
        await self._rolled_out(NAMESPACE, "equipoise-collector")
        return await self.reason()

    async def _rolled_out(self, namespace: str, deployment: str) -> None:
        real = self.installation.real
        await real.run(real.kubectl, "--namespace", namespace, "rollout", "status", "deployment", deployment)

    async def tested(self) -> dict[str, Any]:
        """Whether `helm test` succeeds, and what it finds about the source of metrics."""
        real = self.installation.real
        try:
            await real.run(real.helm, "test", RELEASE, "--namespace", NAMESPACE)
            passed = True
        except ClusterError:
            passed = False
        log = await real.run(real.kubectl, "--namespace", NAMESPACE, "logs", f"job/{RELEASE}-test")
        lines = log.splitlines()
        about = lines[lines.index("prometheus") + 1 : lines.index("nodes")]
        return {"passed": passed, "prometheus": about, "reported": [line for line in lines if "processes)" in line]}

    async def problems(self) -> list[str]:
        """The problems of the collectors, by their /readyz."""
        texts = []
        for pod in (await self.installation.api.request("GET", COLLECTORS))["items"]:
            path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}:8081/proxy/readyz"
            texts += (await self.installation.api.request("GET", path))["problems"]
        return texts

    async def problems_when(self, wanted: Callable[[str], bool]) -> list[str]:
        """Waits until the problems of the collectors, in one text, are as wanted."""
        problems: list[str] = []

        async def are_wanted() -> bool:
            problems[:] = await self.problems()
            return wanted(" ".join(problems))

        await until("the collectors report what is wanted", are_wanted)
        return problems

    async def tested_until(self, text: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Repeats `helm test` until its result is as wanted, which `text` describes."""
        results: list[dict[str, Any]] = []

        async def is_wanted() -> bool:
            results.append(await self.tested())
            return wanted(results[-1])

        await until(text, is_wanted)
        return results[-1]

    async def passed(self) -> dict[str, Any]:
        """Waits until `helm test` succeeds: a load is known after one window of Prometheus."""
        return await self.tested_until("helm test succeeds", lambda result: bool(result["passed"]))

    async def reported(self, problem: str) -> dict[str, Any]:
        """Waits until `helm test` shows a problem that the services report, which their next heartbeat has."""
        return await self.tested_until(
            "helm test shows what services report", lambda result: problem in " ".join(result["reported"])
        )

    async def pods(self) -> list[str]:
        """The collectors, with their restarts."""
        pods = (await self.installation.api.request("GET", COLLECTORS))["items"]
        restarts = {pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods}
        return sorted(f"{name} {count}" for name, count in restarts.items())


async def run(installation: Installation) -> dict[str, Any]:
    """All steps, and what was seen."""
    sources, api = Sources(installation=installation), installation.api
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await api.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}])

    await installation.helm("install", VALUES)
    reason = await sources.reason()
    nothing = {"reason": reason, "test": await sources.reported(reason)}
    note(f"without a Prometheus: {nothing}")

    await sources.start(TENANT, trusted=False)
    await sources.start(FIRST, trusted=True)
    await sources.start(SECOND, trusted=True)
    several = await sources.search_again()
    note(f"with several: {several}")

    await api.request("DELETE", f"/api/v1/namespaces/{SECOND}/services/{PROMETHEUS}")
    found = {"reason": await sources.search_again(), "test": await sources.passed()}
    note(f"with one: {found}")

    await sources.start(FIRST, trusted=True, token="first")
    file = installation.real.directory / "with-token.yaml"
    file.write_text(yaml.safe_dump(WITH_TOKEN))
    preview = await installation.equipoise("install", "--values", str(file))
    await api.apply([secret(TOKEN_SECRET, NAMESPACE, "wrong")])
    await installation.helm("upgrade", VALUES | WITH_TOKEN)
    refused = {"problems": await sources.problems_when(lambda text: "401" in text), "test": await sources.tested()}
    note(f"with a wrong token: {refused}")
    doctor = json.loads(await installation.equipoise("doctor", "prometheus", "services", "-o", "json"))["findings"]
    before = await sources.pods()
    await api.apply([secret(TOKEN_SECRET, NAMESPACE, "first")])
    await sources.problems_when(lambda text: "401" not in text)
    accepted = {"pods": [before, await sources.pods()], "test": await sources.passed()}
    note(f"with the right token: {accepted}")
    return {
        "nothing": nothing,
        "several": several,
        "found": found,
        "preview": preview.splitlines(),
        "refused": refused,
        "doctor": [f"{finding['check']} {finding['state']} {finding['message']}" for finding in doctor],
        "accepted": accepted,
        "machine_load": machine_load(),
    }


async def main() -> None:
    real = new_cluster()
    async with real, real.cluster.api() as api:
        print_result(await run(Installation(real=real, api=api)))


if __name__ == "__main__":
    asyncio.run(main())
