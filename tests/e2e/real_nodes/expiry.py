"""What changes below running services: their tokens, which expire after ten minutes, and a DNS server that starts late.

`python -m e2e.real_nodes.expiry` with tests/ in PYTHONPATH, as root. Its last line is a JSON document.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deployment.base import NAMESPACE
from e2e.real_nodes.installation import Installation, installed, machine_load, new_cluster, note, print_result, values
from e2e.real_nodes.restarts import AGENTS, Restarts

from equipoise.testbed.api import ApiError

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
LIFETIME_SECONDS = 600.0
"""Of the tokens in the manifests, which is the shortest that the API server issues."""

SKEW_SECONDS = 60.0
"""The API server accepts a token for a moment after it has expired."""

POLL_SECONDS = 10.0
NAMED_SECONDS = 120.0


@dataclass(kw_only=True)
class Pods:
    """The pods of the chart."""

    installation: Installation

    async def names(self) -> list[tuple[str, str]]:
        """Namespace and name of each running pod."""
        found = []
        for namespace in (NAMESPACE, AGENTS):
            pods = await self.installation.api.request("GET", f"/api/v1/namespaces/{namespace}/pods")
            found += [
                (namespace, pod["metadata"]["name"])
                for pod in pods["items"]
                if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
            ]
        return found

    async def tokens(self) -> dict[str, str]:
        """The token of each pod that has one, as its containers read it."""
        real = self.installation.real
        tokens = {}
        for namespace, name in await self.names():
            pod = await self.installation.api.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
            mounts = pod["spec"]["containers"][0].get("volumeMounts", ())
            if any(TOKEN.startswith(mount["mountPath"]) for mount in mounts):
                tokens[name] = await real.run(
                    real.kubectl, "exec", f"--namespace={namespace}", name, "--", "cat", TOKEN
                )
        return tokens

    async def delete_all(self) -> None:
        """But for NATS, which has no volume here: its streams would be lost."""
        for namespace, name in await self.names():
            if name.startswith("nats-"):
                continue
            await self.installation.api.request(
                "DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=1"
            )

    async def refused(self, tokens: Mapping[str, str]) -> list[str]:
        """The pods whose token the API server refuses."""
        return [name for name, token in tokens.items() if await self._status(token) == 401]

    async def _status(self, token: str) -> int:
        try:
            await self.installation.api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods", token=token)
        except ApiError as error:
            return error.status
        return 200

    async def not_ready(self) -> dict[str, str]:
        """The text of /readyz of each pod that is not ready, through the API server."""
        texts = {}
        for namespace, name in await self.names():
            pod = await self.installation.api.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
            ports = {port.get("name"): port["containerPort"] for port in pod["spec"]["containers"][0].get("ports", ())}
            if "health" in ports:
                path = f"/api/v1/namespaces/{namespace}/pods/{name}:{ports['health']}/proxy/readyz"
                try:
                    await self.installation.api.request("GET", path)
                except ApiError as error:
                    texts[name] = str(error.body)
        return texts


async def run(installation: Installation) -> dict[str, Any]:
    """All steps, and what was seen."""
    real, pods, load = installation.real, Pods(installation=installation), machine_load()
    restarts = Restarts(installation=installation)
    await installation.helm("upgrade", {**values(real.prometheus_url), "agent": {"enabled": True}})

    real.stop_dns()
    await pods.delete_all()
    named, deadline = "", time.monotonic() + NAMED_SECONDS
    while not named and time.monotonic() < deadline:
        await asyncio.sleep(1)
        named = next((text for text in (await pods.not_ready()).values() if "resolve" in text), "")
    note(f"without DNS: {named}")
    real.start_dns()
    back = await restarts.all_ready()
    note(f"all services are ready {back:.0f} s after the DNS server")

    began, tokens = time.monotonic(), await pods.tokens()
    note(f"{len(tokens)} pods have a token")
    not_ready: dict[str, str] = {}

    async def expire() -> None:
        while time.monotonic() < began + LIFETIME_SECONDS + 2 * SKEW_SECONDS:
            await asyncio.sleep(POLL_SECONDS)
            not_ready.update(await pods.not_ready())

    restarted = await restarts.restarted(expire)
    later = await pods.tokens()
    return {
        "named_without_dns": named,
        "ready_after_dns": round(back, 1),
        "tokens": len(tokens),
        "same_tokens": [name for name, token in later.items() if tokens.get(name) == token],
        "refused_before": sorted(await pods.refused(tokens)),
        "refused_now": sorted(await pods.refused(later)),
        "not_ready": not_ready,
        "restarted": restarted,
        "machine_load": [load, machine_load()],
    }


async def main() -> None:
    real = new_cluster()
    async with installed(real) as installation:
        print_result(await run(installation))


if __name__ == "__main__":
    asyncio.run(main())
