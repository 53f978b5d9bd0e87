"""The rules that approve evictions, and the policy that requires them."""

from collections.abc import Sequence

from deployment.base import base_documents
from deployment.kustomize import named
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.eviction.approval import APPROVAL_POLICY, APPROVAL_ROLE, NOT_APPROVED, approval_rules


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
