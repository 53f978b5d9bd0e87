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
    """The API server writes null when there are none."""


class PolicyValidation(ApiValue, frozen=True, kw_only=True):
    message: str = ""


class AdmissionPolicySpec(ApiValue, frozen=True, kw_only=True):
    validations: list[PolicyValidation] = []


class AdmissionPolicy(Object, frozen=True, kw_only=True):
    """ValidatingAdmissionPolicy."""

    spec: AdmissionPolicySpec = AdmissionPolicySpec()


class ResourceAttributes(ApiValue, frozen=True, kw_only=True):
    """A verb on a resource, for an access review."""

    verb: str
    group: str = ""
    resource: str
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    """Empty: all namespaces, or a resource without namespaces."""


class AccessReviewSpec(ApiValue, frozen=True, kw_only=True):
    resource_attributes: ResourceAttributes
    user: str = ""
    """Empty: the caller."""

    groups: list[str] = []


def account_review(namespace: str, name: str, attributes: ResourceAttributes) -> AccessReviewSpec:
    """Whether a ServiceAccount has a permission, also through one of its groups."""
    accounts = "system:serviceaccounts"
    return AccessReviewSpec(
        resource_attributes=attributes,
        user=f"system:serviceaccount:{namespace}:{name}",
        groups=[accounts, f"{accounts}:{namespace}", "system:authenticated"],
    )


class AccessReviewStatus(ApiValue, frozen=True, kw_only=True):
    allowed: bool = False


class AccessReview(Object, frozen=True, kw_only=True):
    """Asks the API server, by its creation, whether a user has a permission. It is not stored."""

    spec: AccessReviewSpec
    status: AccessReviewStatus = AccessReviewStatus()
