"""Values that the examples of messages share: a pod of the Deployment shop/web is evicted from a hot node."""

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.contracts.messages.values.resources import Resources

GIB = 2.0**30
NOW = 1_800_000_000.0
"""15 January 2027, 08:00 UTC."""

WORKLOAD = Workload(kind="Deployment", group="apps", namespace="shop", name="web")
POD, POD_UID = "web-7d4b9c-x2x7l", "0c5ba2b0-6f1e-4b5e-9a53-3d7a1d1f0001"
HOT_NODE, IDLE_NODE = "node-1.example.com", "node-2.example.com"
DESCHEDULER = "descheduler-5c9f-a1b2c3"
LEASE_EPOCH = LeaseEpoch(lease_uid="5f0d7a36-2f6a-4f0b-8f0e-0d1c2b3a4958", transitions=3, holder=DESCHEDULER)
INTENT_ID = "5e1f9d0c"
REASON = "node is hot: cpu 91.0% is above 65%"
USAGE = Resources(cpu=1.2, memory=1.5 * GIB)
REQUESTS = Resources(cpu=0.5, memory=GIB)
COLLECTOR_EPOCH = 1_799_990_000_000
