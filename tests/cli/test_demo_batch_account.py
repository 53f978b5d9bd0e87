"""The account of the demo's reclaimer."""

from pathlib import Path

import pytest

from equipoise.cli.demo.colocation.account import NAME, NAMESPACE, account_documents
from equipoise.cli.exit_codes import InvalidInput


def test_the_account_is_the_deployed_one_with_its_policies() -> None:
    """No workload of the manifests: the reclaimer of the demo is a process."""
    documents = account_documents()
    kinds = {each["kind"] for each in documents}

    assert {(NAMESPACE, NAME)} == {
        (each["metadata"]["namespace"], each["metadata"]["name"])
        for each in documents
        if each["kind"] == "ServiceAccount"
    }
    assert {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount"} < kinds
    assert "Deployment" not in kinds
    for name in ("equipoise-reclaimer-fence", "equipoise-lease-fence"):
        assert {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} == {
            each["kind"] for each in documents if each["metadata"]["name"] == name
        }


def test_without_the_repository_the_error_names_what_is_needed(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"reclaimer\.yaml does not exist: clone the repository"):
        account_documents(tmp_path)
