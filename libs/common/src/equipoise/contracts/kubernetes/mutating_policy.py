"""MutatingAdmissionPolicy: the API server itself changes new objects, without a webhook."""

from collections.abc import Collection

API_GROUP = "admissionregistration.k8s.io"
API_VERSIONS = ("v1", "v1beta1")
"""The versions of the policy, newest first: stable from Kubernetes 1.36 on; in 1.34 and 1.35 a beta, off by default."""

POLICY_KIND = "MutatingAdmissionPolicy"

REQUIREMENT = (
    f"Kubernetes 1.36, or 1.34 with the feature gate {POLICY_KIND} and --runtime-config={API_GROUP}/v1beta1=true"
)
"""The API servers that have the policy, for people."""


MAX_ANNOTATION_BYTES = 256 * 1_024
"""Names and values of all annotations of an object together. Source: TotalAnnotationSizeLimitB of apimachinery."""


def room_for_annotations(needed: str) -> str:
    """The condition (CEL) that the API server accepts an object with this many more bytes of annotations.

    `needed`: an expression. Lengths of strings are in characters, those of bytes are not.
    """
    return f"""\
object.metadata.?annotations.orValue({{}})
.map(key, size(bytes(key)) + size(bytes(object.metadata.annotations[key]))).sum()
<= {MAX_ANNOTATION_BYTES} - ({needed})"""


def supported_version(served: Collection[str]) -> str | None:
    """The newest version of the policy that an API server serves; None: it has no such policies."""
    return next((version for version in API_VERSIONS if version in served), None)
