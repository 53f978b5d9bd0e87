"""MutatingAdmissionPolicy: the API server itself changes new objects, without a webhook."""

from collections.abc import Collection

from equipoise.contracts.kubernetes.supported_versions import OLDEST_WITH_MUTATING_POLICIES, minor_versions

API_GROUP = "admissionregistration.k8s.io"
API_VERSIONS = ("v1", "v1beta1")
"""The versions of the policy, newest first: stable from Kubernetes 1.36 on; in 1.34 and 1.35 a beta, off by default."""

POLICY_KIND = "MutatingAdmissionPolicy"

REQUIREMENT = (
    f"Kubernetes {minor_versions(OLDEST_WITH_MUTATING_POLICIES)[0]}, or 1.34 with the feature gate {POLICY_KIND} "
    f"and --runtime-config={API_GROUP}/v1beta1=true"
)
"""The API servers that have the policy, as a text for people."""


MAX_ANNOTATION_BYTES = 256 * 1_024
"""Names and values of all annotations of an object together. Source: TotalAnnotationSizeLimitB of apimachinery."""


def room_for_annotations(needed: str) -> str:
    """The CEL condition that the API server accepts an object with this many more bytes of annotations.

    `needed`: a CEL expression. The size of a string is its number of characters, so it is converted to bytes.
    """
    return f"""\
object.metadata.?annotations.orValue({{}})
.map(key, size(bytes(key)) + size(bytes(object.metadata.annotations[key]))).sum()
<= {MAX_ANNOTATION_BYTES} - ({needed})"""


def supported_version(served: Collection[str]) -> str | None:
    """The newest version of the policy that an API server serves; None if it serves none."""
    return next((version for version in API_VERSIONS if version in served), None)
