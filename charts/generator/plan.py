"""What in k8s/base becomes a template expression.

An entry that changes nothing is an error, so that the plan follows k8s/base.
"""

from charts.generator.changes import Change
from charts.generator.components.agent import agent_changes
from charts.generator.components.certificates import certificates_changes
from charts.generator.components.extender import extender_changes
from charts.generator.components.hints import hints_changes
from charts.generator.components.jobs import prepare_changes, setup_changes
from charts.generator.components.live_page import live_page_changes
from charts.generator.components.nats import nats_changes
from charts.generator.components.policies import policies_changes
from charts.generator.components.schedulers import scheduler_changes, second_scheduler_changes
from charts.generator.components.services import service_changes

from equipoise.contracts.bus.subjects import ALL_SERVICES


def plan() -> list[Change]:
    """The changes of all objects, in the order in which they are made."""
    return [
        *(change for service in ALL_SERVICES for change in service_changes(service)),
        *extender_changes(),
        *hints_changes(),
        *prepare_changes(),
        *setup_changes(),
        *nats_changes(),
        *second_scheduler_changes(),
        *scheduler_changes(),
        *live_page_changes(),
        *agent_changes(),
        *certificates_changes(),
        *policies_changes(),
    ]
