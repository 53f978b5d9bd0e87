"""The accounts of the demo's services."""

from pathlib import Path

import pytest

from equipoise.cli.demo.accounts import NAMESPACE, account_documents
from equipoise.cli.demo.colocation.run import ACCOUNT_FILES as COLOCATION
from equipoise.cli.demo.surge.run import ACCOUNT_FILES as SURGE
from equipoise.cli.exit_codes import InvalidInput


@pytest.mark.parametrize(
    ("files", "accounts", "policies"),
    [
        (COLOCATION, {"equipoise-reclaimer"}, {"equipoise-reclaimer-fence", "equipoise-lease-fence"}),
        (
            SURGE,
            {"equipoise-descheduler", "equipoise-binder"},
            {"equipoise-surge-fence", "equipoise-binder-fence", "equipoise-approval-fence"},
        ),
    ],
)
def test_the_accounts_are_the_deployed_ones_with_their_policies(
    files: tuple[str, ...], accounts: set[str], policies: set[str]
) -> None:
    """No workload of the manifests: the services of the demo are processes."""
    documents = account_documents(files, "--option")
    kinds = {each["kind"] for each in documents}

    assert {(NAMESPACE, name) for name in accounts} == {
        (each["metadata"]["namespace"], each["metadata"]["name"])
        for each in documents
        if each["kind"] == "ServiceAccount"
    }
    assert {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount"} < kinds
    assert "Deployment" not in kinds
    for name in policies:
        assert {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} == {
            each["kind"] for each in documents if each["metadata"]["name"] == name
        }


def test_the_binder_of_the_demo_may_detach_pods() -> None:
    """With what k8s/surge adds to k8s/base."""
    names = {each["metadata"]["name"] for each in account_documents(SURGE, "--surge")}

    assert {"equipoise-binder-surge", "equipoise-binder-detach"} <= names


@pytest.mark.parametrize(("files", "option"), [(COLOCATION, "--colocation"), (SURGE, "--surge")])
def test_without_the_repository_the_error_names_what_is_needed(
    files: tuple[str, ...], option: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=rf"{option} needs .* does not exist: clone the repository"):
        account_documents(files, option, tmp_path)
