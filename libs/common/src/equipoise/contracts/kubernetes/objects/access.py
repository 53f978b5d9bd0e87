"""Permissions: roles, access reviews and admission policies."""

from equipoise.contracts.kubernetes.objects.metadata import ApiValue, Object


class PolicyRule(ApiValue, frozen=True, kw_only=True):
    """A rule of a Role. Without resource names it applies to objects of every name."""

    api_groups: list[str] = []
    resources: list[str] = []
    resource_names: list[str] = []
    verbs: list[str] = []


class Role(Object, frozen=True, kw_only=True):
    rules: list[PolicyRule] | None = None
    """None if there are no rules: the API server writes null."""


class PolicyValidation(ApiValue, frozen=True, kw_only=True):
    message: str = ""


class AdmissionPolicySpec(ApiValue, frozen=True, kw_only=True):
    validations: list[PolicyValidation] = []


class AdmissionPolicy(Object, frozen=True, kw_only=True):
    """A ValidatingAdmissionPolicy."""

    spec: AdmissionPolicySpec = AdmissionPolicySpec()


class ResourceAttributes(ApiValue, frozen=True, kw_only=True):
    """A verb on a resource, for an access review."""

    verb: str
    group: str = ""
    resource: str
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    """The namespace; empty for all namespaces, or for a resource without namespaces."""


class AccessReviewSpec(ApiValue, frozen=True, kw_only=True):
    resource_attributes: ResourceAttributes
    user: str = ""
    """The user; empty for the caller."""

    groups: list[str] = []


def account_review(namespace: str, name: str, attributes: ResourceAttributes) -> AccessReviewSpec:
    """A request whether a ServiceAccount has a permission, directly or through one of its groups."""
    accounts = "system:serviceaccounts"
    return AccessReviewSpec(
        resource_attributes=attributes,
        user=f"system:serviceaccount:{namespace}:{name}",
        groups=[accounts, f"{accounts}:{namespace}", "system:authenticated"],
    )


class AccessReviewStatus(ApiValue, frozen=True, kw_only=True):
    allowed: bool = False


class UserInfo(ApiValue, frozen=True, kw_only=True):
    username: str = ""


class SelfReviewStatus(ApiValue, frozen=True, kw_only=True):
    user_info: UserInfo = UserInfo()


class SelfReview(Object, frozen=True, kw_only=True):
    """An object whose creation returns the user of the request. The API server does not store it."""

    status: SelfReviewStatus = SelfReviewStatus()


class AccessReview(Object, frozen=True, kw_only=True):
    """An object whose creation returns whether a user has a permission. The API server does not store it."""

    spec: AccessReviewSpec
    status: AccessReviewStatus = AccessReviewStatus()
