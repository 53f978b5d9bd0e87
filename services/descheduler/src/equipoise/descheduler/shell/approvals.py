"""Writes the approved evictions to the API server, as the rules of a Role that is bound to the binder."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from equipoise.contracts.eviction.approval import APPROVAL_ROLE, approval_rules, retained_approvals
from equipoise.runtime.kubernetes.client import ROLES, Kube, KubeError


@dataclass
class Approvals:
    kube: Kube
    namespace: str

    async def write(self, pods: Sequence[str], surge_pods: Collection[str] | None) -> str:
        """Approves the evictions of `pods` (UIDs), and keeps the approvals of `surge_pods`; all others end.

        `surge_pods`: the pods that are moved without a gap; None if no binder has reported them yet, and no approval
        ends. Returns why the approvals cannot be written; "" if they are. Does nothing with a kubeconfig: no policy
        restricts its user.
        """
        if not self.kube.as_service_account:
            return ""
        try:
            role = await self.kube.get(ROLES, APPROVAL_ROLE, self.namespace)
            rules = approval_rules(sorted({*pods, *retained_approvals(role.rules or [], surge_pods)}))
            if (role.rules or []) != rules:
                await self.kube.replace(ROLES, msgspec.structs.replace(role, rules=rules))
        except KubeError as error:
            problem = f"evictions cannot be approved, so none is proposed: {error}"
            install = "apply k8s/base/descheduler.yaml (with Helm: upgrade the release)"
            return f"{problem}: {install}" if error.status in (403, 404) else problem
        return ""
