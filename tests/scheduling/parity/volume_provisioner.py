"""Creates the volumes that a CSI driver would: for claims that kube-scheduler has assigned to a node."""

from equipoise.scheduling.model.volumes import SELECTED_NODE
from equipoise.testbed.api import Api, ApiError


async def provision(api: Api) -> None:
    """The controller of kube-controller-manager binds them to their claims."""
    for claim in (await api.request("GET", "/api/v1/persistentvolumeclaims"))["items"]:
        metadata, spec = claim["metadata"], claim["spec"]
        if spec.get("volumeName") or SELECTED_NODE not in metadata.get("annotations", {}):
            continue
        name = f"provisioned-{metadata['uid']}"
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": spec["resources"]["requests"]["storage"]},
                "accessModes": spec["accessModes"],
                "storageClassName": spec["storageClassName"],
                "volumeMode": spec["volumeMode"],
                "csi": {"driver": "fast.csi.example", "volumeHandle": name},
                "claimRef": {
                    "kind": "PersistentVolumeClaim",
                    "apiVersion": "v1",
                    "namespace": metadata["namespace"],
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                },
            },
        }
        try:
            await api.request("POST", "/api/v1/persistentvolumes", volume)
        except ApiError as error:
            if error.status != 409:  # it exists, and is not bound yet
                raise
