"""Writes the approved evictions to the API server, as the rules of a Role that is bound to the binder."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from equipoise.contracts.eviction.approval import APPROVAL_ROLE, approval_rules
from equipoise.runtime.kubernetes.client import ROLES, Kube, KubeError


@dataclass
class Approvals:
    kube: Kube
    namespace: str

    async def write(self, pods: Sequence[str]) -> str:
        """Approves the evictions of these pods (UIDs) and of no others. Returns why that failed; "" when it is done.

        Does nothing with a kubeconfig: no policy restricts its user.
        """
        if not self.kube.as_service_account:
            return ""
        rules = approval_rules(pods)
        try:
            role = await self.kube.get(ROLES, APPROVAL_ROLE, self.namespace)
            if (role.rules or []) != rules:
                await self.kube.replace(ROLES, msgspec.structs.replace(role, rules=rules))
        except KubeError as error:
            problem = f"evictions cannot be approved, so none is proposed: {error}"
            install = "apply k8s/base/descheduler.yaml (with Helm: upgrade the release)"
            return f"{problem}: {install}" if error.status in (403, 404) else problem
        return ""
