"""Volumes: bound and waiting claims, zones, topologies, limits of drivers, exclusive claims, and disks."""

from scheduling.parity.common_objects import NAMESPACES, ZONES, Document
from scheduling.parity.generator import ClusterGenerator

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
DRIVERS = ("fast.csi.example", "slow.csi.example")
MODES = ("ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany", "ReadWriteMany")
SIZES = ("1Gi", "2Gi", "5Gi", "10Gi")
CLASSES = ("immediate", "late", "dynamic", "zonal")


class VolumesCluster(ClusterGenerator):
    """Claims are divided among the pods; a few are used by several.

    No two namespaces have one of the same name: what kube-scheduler does then is a difference that is intended.
    """

    name = "volumes"
    objects_first = True

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._claims: dict[str, list[str]] = {}
        """Names by namespace."""

        self._is_bound: dict[tuple[str, str], bool] = {}

    def objects(self) -> list[Document]:
        found = [*self._storage_classes(), *(self._csi_node(name) for name in self.names)]
        for number in range(self._random.randint(3, 14)):
            found.append(self._volume(f"free-{self._seed}-{number}"))
        for namespace in NAMESPACES:
            self._claims[namespace] = []
            for number in range(self._random.randint(2, 8)):
                name = f"claim-{namespace}-{number}"
                self._claims[namespace].append(name)
                found += self._claim(namespace, name)
        return [*found, *self._attachments(found), *super().objects()]

    def _attachments(self, objects: list[Document]) -> list[Document]:
        """VolumeAttachments of volumes that a node has not detached yet, or attaches for a pod."""
        volumes = [each for each in objects if each["kind"] == "PersistentVolume" and self._chance(0.2)]
        return [
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "VolumeAttachment",
                "metadata": {"name": f"attachment-{volume['metadata']['name']}"},
                "spec": {
                    "attacher": volume["spec"]["csi"]["driver"],
                    "nodeName": self._random.choice(self.names),
                    "source": {"persistentVolumeName": volume["metadata"]["name"]},
                },
            }
            for volume in volumes
        ]

    def _pod(self, name: str, *, simple: bool = False) -> Document:
        pod = super()._pod(name, simple=simple)
        volumes: list[Document] = []
        claims = self._claims[pod["metadata"]["namespace"]]
        if not simple:
            # No claim twice: that it needs two volumes in kube-scheduler is a difference that is intended.
            for claim in self._random.sample(claims, self._random.choice((0, 1, 1, 2))):
                name_of_claim = "missing" if self._chance(0.04) else claim
                volumes.append({"persistentVolumeClaim": {"claimName": name_of_claim}})
        else:
            bound = [each for each in claims if self._is_bound[pod["metadata"]["namespace"], each]]
            if bound and self._chance(0.3):
                volumes.append({"persistentVolumeClaim": {"claimName": self._random.choice(bound)}})
        if self._chance(0.2):
            volumes.append(self._disk())
        pod["spec"]["volumes"] = [{"name": f"volume-{number}", **each} for number, each in enumerate(volumes)]
        return pod

    def _disk(self) -> Document:
        choice = self._random.choice
        read_only = self._chance(0.5)
        match self._random.randint(0, 3):
            case 0:
                return {"gcePersistentDisk": {"pdName": choice(("one", "two")), "readOnly": read_only}}
            case 1:
                return {"awsElasticBlockStore": {"volumeID": choice(("one", "two")), "readOnly": read_only}}
            case 2:
                portal = {"targetPortal": "10.0.0.1:3260", "lun": self._random.randint(0, 1)}
                return {"iscsi": {"iqn": choice(("iqn.one", "iqn.two")), "readOnly": read_only, **portal}}
        image = {"image": choice(("one", "two")), "readOnly": read_only}
        if self._chance(0.5):
            image["pool"] = choice(("rbd", "other"))
        return {"rbd": {"monitors": self._some(("10.0.0.1", "10.0.0.2")), **image}}

    def _storage_classes(self) -> list[Document]:
        terms = []
        for zones in self._random.sample((("zone-a",), ("zone-b",), ("zone-a", "zone-c")), self._random.randint(1, 2)):
            rules = [{"key": ZONE, "values": list(zones)}]
            if self._chance(0.3):
                rules.append({"key": "disk", "values": ["ssd"]})
            terms.append({"matchLabelExpressions": rules})
        return [
            _storage_class("immediate", "kubernetes.io/no-provisioner", "Immediate"),
            _storage_class("late", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
            _storage_class("dynamic", DRIVERS[0], "WaitForFirstConsumer"),
            {**_storage_class("zonal", DRIVERS[0], "WaitForFirstConsumer"), "allowedTopologies": terms},
        ]

    def _csi_node(self, name: str) -> Document:
        drivers = []
        for driver in DRIVERS:
            if self._chance(0.8):
                limit = {"allocatable": {"count": self._random.randint(1, 4)}} if self._chance(0.8) else {}
                drivers.append({"name": driver, "nodeID": name, "topologyKeys": [], **limit})
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": name},
            "spec": {"drivers": drivers},
        }

    def _volume(self, name: str) -> Document:
        choice = self._random.choice
        labels = {}
        if self._chance(0.25):
            labels[ZONE] = choice((*ZONES, "zone-a__zone-b"))
        if self._chance(0.05):
            labels["failure-domain.beta.kubernetes.io/zone"] = choice(ZONES)
        if self._chance(0.2):
            labels["tier"] = "x"
        handle = {"driver": choice(DRIVERS), "volumeHandle": name}
        spec: Document = {
            "capacity": {"storage": choice(SIZES)},
            "accessModes": self._some(MODES),
            "csi": handle,
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": choice((*CLASSES, "late", "late")),
            "volumeMode": "Block" if self._chance(0.1) else "Filesystem",
        }
        if "ReadWriteOncePod" in spec["accessModes"]:
            spec["accessModes"] = ["ReadWriteOncePod"]
        if self._chance(0.5):
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [self._volume_term()]}}
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
        }

    def _volume_term(self) -> Document:
        if self._chance(0.5):
            names = self._some(self.names)
            return {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": names}]}
        return {"matchExpressions": [{"key": ZONE, "operator": "In", "values": self._some(ZONES)}]}

    def _claim(self, namespace: str, name: str) -> list[Document]:
        """And its volume if it is bound."""
        choice = self._random.choice
        bound = self._chance(0.45)
        self._is_bound[namespace, name] = bound
        spec: Document = {
            "accessModes": [choice(MODES)],
            "resources": {"requests": {"storage": choice(SIZES)}},
            "storageClassName": choice((*CLASSES, "late", "late")),
        }
        found: list[Document] = []
        if bound:
            volume = self._volume(f"bound-{name}")
            reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": namespace, "name": name}
            volume["spec"] |= {
                "claimRef": reference,
                "accessModes": spec["accessModes"],
                "capacity": {"storage": "10Gi"},
                "storageClassName": spec["storageClassName"],
                "volumeMode": "Filesystem",
            }
            spec["volumeName"] = volume["metadata"]["name"]
            found.append(volume)
        elif self._chance(0.2):
            spec["selector"] = {"matchLabels": {"tier": "x"}}
        elif self._chance(0.1):
            spec["volumeMode"] = "Block"
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace},
        }
        return [*found, {**claim, "spec": spec}]


def _storage_class(name: str, provisioner: str, mode: str) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }
