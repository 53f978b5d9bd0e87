"""How the descheduler approves evictions. The API server refuses all other evictions by the binder.

The Role lists the UIDs of the approved pods and is bound to the binder. The policy `equipoise-binder-fence` of
k8s/base/fence.yaml requires its permission.
"""

from collections.abc import Collection, Sequence

from equipoise.contracts.kubernetes.objects.access import PolicyRule

APPROVAL_ROLE = "equipoise-approved-evictions"

APPROVAL_POLICY = "equipoise-binder-fence"

NOT_APPROVED = "the descheduler has not approved the eviction of this pod"
"""The message with which that policy refuses an eviction."""

MAX_RETAINED = 100
"""The number of approvals that are kept for moves without a gap. A heartbeat names them, which a stolen token of the
binder could send: it must not fill the Role."""


def approval_rules(pods: Sequence[str]) -> list[PolicyRule]:
    """The rules of the Role: none without pods, because a rule without names would approve every pod."""
    if not pods:
        return []
    rule = PolicyRule(
        api_groups=["equipoise.dev"], resources=["evictions"], resource_names=list(pods), verbs=["approve"]
    )
    return [rule]


def retained_approvals(rules: Sequence[PolicyRule], surge_pods: Collection[str] | None) -> list[str]:
    """The approved pods (UIDs) that are moved without a gap, so that a slow move can end with the eviction.

    None is added: a binder cannot approve. `surge_pods`: None if they are not known, and every approval is kept.
    """
    approved = sorted({name for rule in rules for name in rule.resource_names or ()})
    return approved if surge_pods is None else [uid for uid in approved if uid in surge_pods][:MAX_RETAINED]
