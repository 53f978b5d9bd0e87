"""The values on which whole objects depend."""

from charts.generator.components.hints import BY_POLICY, BY_WEBHOOK

from equipoise.contracts.bus.subjects import ALL_SERVICES

EVICTS = 'has $.Values.mode (list "advise" "evict")'
CONDITIONS: list[tuple[str, str, str, str]] = [
    # file, kind, name, condition; of several that match, all must hold
    *(
        ("*", "PodDisruptionBudget", f"equipoise-{name}", f"$.Values.{name}.podDisruptionBudget.enabled")
        for name in ALL_SERVICES
    ),
    *(
        ("*", "ServiceAccount", f"equipoise-{name}", f"$.Values.{name}.serviceAccount.create")
        for name in (*ALL_SERVICES, "agent")
    ),
    *(
        ("*", kind, "*", "$.Values.rbac.create")
        for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    ),
    ("*", "ClusterRoleBinding", "equipoise-evict", f"and ({EVICTS}) (not $.Values.namespaces)"),
    ("*", "RoleBinding", "equipoise-evict", EVICTS),
    ("prepare/prepare.yaml", "*", "*", "and $.Values.prepare.enabled $.Values.rbac.create"),
    ("base/annotator.yaml", "*", "*", "$.Values.annotator.enabled"),
    ("base/nats.yaml", "*", "*", "$.Values.nats.enabled"),
    ("*", "NetworkPolicy", "*", "$.Values.networkPolicy.enabled"),
    ("*", "NetworkPolicy", "equipoise-nats", "$.Values.nats.enabled"),
    ("*", "Service", "equipoise-scorer", "$.Values.extender.enabled"),
    ("*", "PriorityClass", "*", "and $.Values.priorityClass.create $.Values.priorityClass.name"),
    ("base/flow-control.yaml", "*", "*", "$.Values.flowControl.enabled"),
    ("scheduler/second-scheduler.yaml", "*", "*", "$.Values.secondScheduler.enabled"),
    ("scheduler/equipoise-scheduler.yaml", "*", "*", "$.Values.scheduler.enabled"),
    ("scheduler/equipoise-scheduler.yaml", "ServiceAccount", "*", "$.Values.scheduler.serviceAccount.create"),
    ("live-page/*", "*", "*", "$.Values.livePage.enabled"),
    ("hints/[da]*", "*", "*", "$.Values.hints.enabled"),
    ("hints/policy.yaml", "*", "*", BY_POLICY),
    ("hints/webhook.yaml", "*", "*", BY_WEBHOOK),
    ("consolidation/*", "*", "*", "$.Values.annotator.enabled"),
    ("consolidation/*", "*", "*", 'eq (include "equipoise.consolidation" $) "act"'),
    ("deletion-costs/*", "*", "*", "$.Values.annotator.enabled"),
    ("deletion-costs/*", "*", "*", 'ne (include "equipoise.deletionCosts" $) "none"'),
    ("surge/*", "*", "*", 'ne (include "equipoise.surge" $) "none"'),
    ("surge/*", "*", "equipoise-binder-detach", EVICTS),
    ("surge/*", "ClusterRoleBinding", "equipoise-binder-detach", "not $.Values.namespaces"),
    ("colocation/reclaimer*", "*", "*", "$.Values.reclaimer.enabled"),
    ("colocation/agent.yaml", "*", "*", "$.Values.agent.enabled"),
    ("colocation/evictions/*", "*", "*", "and $.Values.agent.enabled $.Values.agent.evictions"),
    ("colocation/*", "FlowSchema", "*", "$.Values.flowControl.enabled"),
    ("live-page/*", "ServiceAccount", "*", "$.Values.livePage.serviceAccount.create"),
    ("live-page/*", "NetworkPolicy", "*", "$.Values.livePage.allowFrom"),  # an empty list would admit everybody
    ("cert-manager/*", "*", "*", "$.Values.certManager.enabled"),
    ("cert-manager/*", "*", "equipoise-nats*", "$.Values.nats.enabled"),
    (
        "cert-manager/*",
        "*",
        "equipoise-extender*",
        "and $.Values.extender.enabled $.Values.extender.tls.existingSecret",
    ),
]
