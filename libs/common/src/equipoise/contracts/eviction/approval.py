"""How the descheduler approves evictions. The API server refuses all other evictions by the binder.

The Role lists the UIDs of the approved pods and is bound to the binder. The policy `equipoise-binder-fence` of
k8s/base/fence.yaml requires its permission.
"""

from collections.abc import Sequence

from equipoise.contracts.kubernetes.objects.access import PolicyRule

APPROVAL_ROLE = "equipoise-approved-evictions"

APPROVAL_POLICY = "equipoise-binder-fence"

NOT_APPROVED = "the descheduler has not approved the eviction of this pod"
"""The message with which that policy refuses an eviction."""


def approval_rules(pods: Sequence[str]) -> list[PolicyRule]:
    """The rules of the Role: none without pods, because a rule without names would approve every pod."""
    if not pods:
        return []
    rule = PolicyRule(
        api_groups=["equipoise.dev"], resources=["evictions"], resource_names=list(pods), verbs=["approve"]
    )
    return [rule]
