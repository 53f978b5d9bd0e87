"""The rules that approve evictions, and the policy that requires them."""

from collections.abc import Sequence

from deployment.base import base_documents
from deployment.kustomize import named
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.eviction.approval import (
    APPROVAL_POLICY,
    APPROVAL_ROLE,
    MAX_RETAINED,
    NOT_APPROVED,
    approval_rules,
    retained_approvals,
)


@given(st.lists(st.uuids().map(str), max_size=5))
def test_no_rule_is_without_names(pods: Sequence[str]) -> None:
    """It would approve the eviction of every pod."""
    rules = approval_rules(pods)

    assert [name for rule in rules for name in rule.resource_names] == pods
    assert all(rule.resource_names for rule in rules)


def test_the_policy_has_the_message_that_the_binder_recognizes() -> None:
    policy = named(base_documents(), "ValidatingAdmissionPolicy", APPROVAL_POLICY)
    validation = policy["spec"]["validations"][-1]
    assert validation["message"] == NOT_APPROVED
    (rule,) = approval_rules(["uid"])
    for text in (*rule.api_groups, *rule.resources, *rule.verbs):
        assert f'"{text}"' in validation["expression"]


def test_the_role_is_empty_where_it_is_installed_and_bound_to_the_binder() -> None:
    """Without the field `rules`, `kubectl apply`, Helm and GitOps tools do not remove what the descheduler wrote."""
    documents = base_documents()
    assert "rules" not in named(documents, "Role", APPROVAL_ROLE)
    binding = named(documents, "RoleBinding", APPROVAL_ROLE)
    assert binding["roleRef"]["name"] == APPROVAL_ROLE
    assert [subject["name"] for subject in binding["subjects"]] == ["equipoise-binder"]


def test_a_heartbeat_keeps_only_approvals_that_exist_and_a_bounded_number_of_them() -> None:
    """A stolen token of the binder can send heartbeats."""
    rules = approval_rules([f"uid-{number:03}" for number in range(MAX_RETAINED * 2)])
    assert retained_approvals(rules, ["uid-001", "never approved"]) == ["uid-001"]
    assert len(retained_approvals(rules, rules[0].resource_names)) == MAX_RETAINED
    assert retained_approvals(rules, None) == rules[0].resource_names
    assert retained_approvals([], ["uid-001"]) == []
