"""The defects that tests and faults must detect: one per guarantee, per finding of a security review, and more."""

import msgspec

CONTRACTS = "libs/common/src/equipoise/contracts"
RUNTIME = "libs/common/src/equipoise/runtime"
BINDER = "services/binder/src/equipoise/binder"
SCORER = "services/scorer/src/equipoise/scorer"
DESCHEDULER = "services/descheduler/src/equipoise/descheduler"
RECLAIMER = "services/reclaimer/src/equipoise/reclaimer"
COLLECTOR = "services/collector/src/equipoise/collector"
AGENT = "services/agent/src/equipoise/agent"
ANNOTATOR = "services/annotator/src/equipoise/annotator"


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """A text of a file, and its replacement."""

    file: str
    before: str
    after: str


class Defect(msgspec.Struct, frozen=True, kw_only=True):
    """A defect, and what must detect it."""

    name: str
    patches: tuple[Patch, ...]
    tests: tuple[str, ...]
    """Arguments for pytest: a file, or one test of it."""

    fault: str = ""
    """Of the campaign; empty: no fault can detect it, for example in a manifest or in a limit of HTTP requests."""

    invariant: str = ""
    """The one that this fault must violate."""


def _defect(name: str, *patches: tuple[str, str, str], tests: str, fault: str = "", invariant: str = "") -> Defect:
    """Each patch is (file, before, after); tests are separated by spaces."""
    return Defect(
        name=name,
        patches=tuple(Patch(file=file, before=before, after=after) for file, before, after in patches),
        tests=tuple(tests.split()),
        fault=fault,
        invariant=invariant,
    )


DEFECTS = (
    # Limits, replicas and protected pods
    _defect(
        "limits off",
        (f"{BINDER}/decisions/limits/rule.py", "        if counted < allowed:", "        if True:"),
        tests="tests/binder/shell/test_ledger_writer.py::test_two_binders_keep_one_set_of_limits",
        fault="killed_binders",
        invariant="I1",
    ),
    _defect(
        "limits in memory",
        (
            f"{BINDER}/shell/ledger_writer.py",
            "await self._save(stored, ledger, reserving=True)",
            "pass",
        ),
        tests="tests/binder/shell/test_ledger_writer.py::test_two_binders_keep_one_set_of_limits",
        fault="killed_binders",
        invariant="I1",
    ),
    _defect(
        "ledger written without compare-and-swap",
        (
            f"{BINDER}/shell/ledger_store.py",
            "await self.kube.replace(CONFIG_MAPS, msgspec.structs.replace(stored.config_map, data=data))",
            "newest = await self.kube.get(CONFIG_MAPS, NAME, self.namespace)\n"
            "        await self.kube.replace(CONFIG_MAPS, msgspec.structs.replace(newest, data=data))",
        ),
        tests="tests/binder/shell/test_ledger_store.py::test_a_write_after_another_write_conflicts",
        fault="three_binders",
        invariant="I1",
    ),
    _defect(
        "windows that count from the reservation",
        (
            f"{BINDER}/state/ledger_entry.py",
            "        return max(self.settled_at or self.reserved_at, self.expires_at + TRANSIT_TIME)",
            "        return self.reserved_at",
        ),
        tests="tests/binder/test_crashes.py::test_a_late_post_counts_in_its_window",
    ),
    _defect(
        "pending moves of a node not counted",
        (
            f"{BINDER}/decisions/limits/migrating_per_node.py",
            "        return view.migrating()",
            "        return []",
        ),
        tests="tests/binder/decisions/limits/test_limits.py::test_migrating_per_node",
        fault="killed_binders",
        invariant="I1",
    ),
    _defect(
        "replicas floor off",
        (
            f"{BINDER}/decisions/limits/unavailable_per_workload.py",
            "        return eviction.unready + super().count(eviction, view)",
            "        return 0",
        ),
        tests="tests/binder/shell/test_validation.py::test_an_obstacle_at_the_last_moment_refuses_the_intent",
        fault="no_new_pods",
        invariant="I2",
    ),
    _defect(
        "late replacements ignored",
        (
            f"{BINDER}/decisions/limits/late_replacements.py",
            "if not entry.dry_run and view.now - entry.latest > self.after]",
            "if False]",
        ),
        tests="tests/binder/decisions/limits/test_limits.py::test_late_replacements_stop_all_evictions",
        fault="no_new_pods",
        invariant="also",
    ),
    _defect(
        "protection off",
        (
            f"{BINDER}/shell/validation.py",
            "            why = protection(candidate, self._rules, self.clock.now())",
            '            why = ""',
        ),
        tests="tests/binder/shell/test_validation.py::test_an_obstacle_at_the_last_moment_refuses_the_intent",
        fault="budgets",
        invariant="I3",
    ),
    _defect(
        "opt-out of a namespace ignored",
        (
            f"{CONTRACTS}/eviction/opt_out.py",
            '        objects.append(("namespace", candidate.namespace.metadata))',
            "        pass",
        ),
        tests="tests/contracts/eviction/test_protection.py::test_a_pod_is_protected_by_its_owners_and_namespace",
        fault="changed_between_steps",
        invariant="I20",
    ),
    _defect(
        "any workload kind treated as replaced",
        (
            f"{CONTRACTS}/eviction/protection.py",
            "    if candidate.workload_object is None:\n        supported",
            "    if False:\n        supported",
        ),
        tests="tests/contracts/eviction/test_protection.py::test_a_pod_is_protected_by_its_owners_and_namespace",
    ),
    _defect(
        "pods deleted instead of evicted",
        (
            f"{RUNTIME}/kubernetes/http/api_server.py",
            '            "kind": "Eviction",',
            '            "kind": "DeleteOptions",',
        ),
        tests="tests/runtime/kubernetes/http/test_http.py::test_a_rehearsal_is_marked_twice",
    ),
    # UIDs, outcomes, messages
    _defect(
        "UID precondition off",
        (
            f"{RUNTIME}/kubernetes/http/api_server.py",
            'options: dict[str, Any] = {"preconditions": {"uid": uid}}',
            "options: dict[str, Any] = {}",
        ),
        tests="tests/runtime/kubernetes/http/test_http.py::test_a_rehearsal_is_marked_twice",
        fault="recreated",
        invariant="I4",
    ),
    _defect(
        "UID of the pod not compared",
        (
            f"{BINDER}/shell/validation.py",
            "    if pod.metadata.uid != intent.pod_uid:",
            "    if False:",
        ),
        tests="tests/binder/shell/test_validation.py::test_an_obstacle_at_the_last_moment_refuses_the_intent",
    ),
    _defect(
        "dedupe off",
        (
            f"{BINDER}/service.py",
            "entry = ledger.entry(intent.id)\n        if entry is not None and",
            "entry: LedgerEntry | None = None\n        if entry is not None and",
        ),
        (
            f"{BINDER}/service.py",
            "if (outcome := self._published.get(intent.id)) is not None:\n            return published(outcome)",
            "if False:\n            pass",
        ),
        (
            f"{BINDER}/service.py",
            "        if entry is None or entry.outcome is None:",
            "        if True:",
        ),
        (
            f"{BINDER}/shell/ledger_writer.py",
            "            if ledger.entry(intent.id) is not None:",
            "            if False:",
        ),
        (
            f"{BINDER}/state/ledger.py",
            "        if self.entry(entry.intent_id) is not None:",
            "        if False:",
        ),
        (f"{BINDER}/decisions/admission.py", "    if other is not None:", "    if False:"),
        tests="tests/binder/test_service.py::test_a_dry_run_reserves_its_pod",
        fault="redelivered",
        invariant="I5",
    ),
    _defect(
        "published outcome ignored without a ledger",
        (
            f"{BINDER}/service.py",
            "if (earlier := self._published.get(intent.id)) is not None:\n            return published(earlier)",
            "if False:\n            pass",
        ),
        tests="tests/binder/state/test_published_outcomes.py::test_an_outcome_remains_when_the_ledger_cannot_be_read",
    ),
    _defect(
        "a lost response counts as a refusal",
        (
            f"{BINDER}/decisions/eviction_response.py",
            '    return EvictionResponse(meaning="unknown" if status == 0 or status >= 500 else "unexpected", why=why)',
            '    return EvictionResponse(meaning="not_now", why=why)',
        ),
        tests="tests/binder/decisions/test_eviction_response.py::test_the_meaning_of_every_response",
        fault="errors",
        invariant="I1",
    ),
    _defect(
        "a blocked disruption budget ends the intent",
        (
            f"{BINDER}/decisions/eviction_response.py",
            '    if response.meaning in ("blocked", "not_approved") and fresh_at(',
            "    if False and fresh_at(",
        ),
        tests="tests/binder/decisions/test_eviction_response.py::test_after_a_temporary_refusal_the_intent_is_retried_without_its_reservation",
    ),
    _defect(
        "a redirected message is accepted",
        (
            f"{RUNTIME}/bus/codec.py",
            "        if not matches(self._pattern, subject) or (headers or {}).get(SUBJECT) != subject:",
            "        if False:",
        ),
        tests="tests/runtime/bus/test_bus.py::test_a_message_that_was_published_for_another_subject_is_counted_and_skipped",
    ),
    # Age, coverage, measurements
    _defect(
        "staleness check off",
        (
            f"{CONTRACTS}/load/correction.py",
            "return -FUTURE_TOLERANCE <= age <= max_age and abs(skew) <= skew_limit",
            "return True",
        ),
        tests="tests/contracts/load/test_correction.py::test_a_sample_is_fresh_until_its_maximum_age",
        fault="budgets",
        invariant="I6",
    ),
    _defect(
        "expired intents are carried out",
        (f"{BINDER}/decisions/staleness.py", "    if now >= intent.expires_at:", "    if False:"),
        tests="tests/binder/decisions/test_staleness.py::test_expired_intents_and_samples_of_the_wrong_age_are_refused",
        fault="delayed",
        invariant="I6",
    ),
    _defect(
        "coverage off",
        (
            f"{CONTRACTS}/load/node_coverage.py",
            '    return f"{_share_known(total, expected, needed)}{because or missing}"',
            '    return ""',
        ),
        tests="tests/contracts/load/test_node_coverage.py::test_coverage_at_the_limit_is_enough",
        fault="few_measured",
        invariant="I8",
    ),
    _defect(
        "nodes that are not Ready ignored",
        (
            f"{CONTRACTS}/load/node_coverage.py",
            "    if ready >= load.coverage.eviction * nodes:",
            "    if True:",
        ),
        tests="tests/binder/decisions/test_staleness.py::test_a_fifth_of_the_nodes_may_be_not_ready",
    ),
    _defect(
        "NaN read as 0",
        (
            f"{COLLECTOR}/sources/prometheus/samples.py",
            '"-Inf": -math.inf}.get(value, math.nan)',
            '"-Inf": -math.inf}.get(value, 0.0)',
        ),
        tests="tests/collector/sources/prometheus/test_samples.py::test_invalid_numbers_are_nan",
        fault="not_numbers",
        invariant="I8",
    ),
    _defect(
        "unknown amounts read as 0",
        (
            f"{CONTRACTS}/load/correction.py",
            "    return value if value is not None and 0.0 <= value < math.inf else None",
            "    return value or 0.0",
        ),
        tests="tests/contracts/load/test_correction.py::test_an_invalid_amount_is_unknown",
    ),
    _defect(
        "older messages replace newer ones",
        (
            f"{CONTRACTS}/load/latest.py",
            "    return latest is None or (message.epoch, message.sequence) >= (latest.epoch, latest.sequence)",
            "    return True",
        ),
        tests="tests/contracts/load/test_latest.py::test_epoch_then_sequence_orders_messages",
    ),
    _defect(
        "a sequence that does not grow",
        (f"{COLLECTOR}/state/owned_shards.py", "        self.sequence += 1", "        self.sequence = 1"),
        tests="tests/collector/shell/test_publisher.py::test_placements_are_published_again_every_resync_period",
        fault="few_measured",
        invariant="I16",
    ),
    # Leaders
    _defect(
        "fencing off",
        (f"{BINDER}/decisions/staleness.py", "    if epoch != live:", "    if False:"),
        (
            f"{BINDER}/decisions/staleness.py",
            "    if newest is not None and newest.lease_uid == epoch.lease_uid",
            "    if False and newest is not None and newest.lease_uid == epoch.lease_uid",
        ),
        tests="tests/binder/decisions/test_staleness.py::test_only_the_newest_holder_of_the_lease_is_accepted",
        fault="stopped_descheduler",
        invariant="I7",
    ),
    _defect(
        "a lease that is never lost",
        (
            f"{RUNTIME}/kubernetes/leader_election.py",
            "            if self._left() <= 0:\n                raise LeaseLost(",
            "            if False:\n                raise LeaseLost(",
        ),
        tests="tests/runtime/kubernetes/test_leader_election.py::test_who_cannot_renew_stops_before_another_may_begin",
    ),
    _defect(
        "a held Lease is taken",
        (
            f"{RUNTIME}/kubernetes/leader_election.py",
            "        if self.clock.monotonic() < self._seen_at + duration + self.acquire_delay():",
            "        if False:",
        ),
        tests="tests/runtime/kubernetes/test_leader_election.py::test_the_first_leads_and_the_second_waits",
    ),
    # Scores
    _defect(
        "scores out of range",
        (f"{SCORER}/decisions/neutral_scores.py", "NEUTRAL = MAX_SCORE", "NEUTRAL = 10 * MAX_SCORE"),
        tests="tests/scorer/decisions/test_ranking.py::test_scores_are_neutral_below_the_minimum_spread",
        fault="scorer_killed",
        invariant="I9",
    ),
    _defect(
        "no reservations",
        (f"{SCORER}/state/reservations.py", "        share = usage / len(rows)", "        share = 0 * usage"),
        tests="tests/scorer/state/test_reservations.py::test_usage_is_reserved_in_equal_parts_on_the_best_nodes",
        fault="herd",
        invariant="I12",
    ),
    _defect(
        "a slow body is waited for",
        (
            f"{SCORER}/shell/extender_server.py",
            "        async with asyncio.timeout(self.settings.deadline):\n            return",
            "        async with asyncio.timeout(None):\n            return",
        ),
        tests="tests/scorer/shell/test_extender_server.py::test_a_body_that_is_not_sent_times_out",
    ),
    # Cooldowns, dry runs, pause
    _defect(
        "no cooldown after a return",
        (
            f"{DESCHEDULER}/state/moves/tracker.py",
            "            if node == move.node and move.workload is not None:",
            "            if False:",
        ),
        tests="tests/descheduler/state/moves/test_tracker.py::test_a_replacement_on_the_evicted_node_starts_a_cooldown_of_its_workload",
        fault="watches",
        invariant="I11",
    ),
    _defect(
        "no cooldown of a workload after an eviction",
        (
            f"{DESCHEDULER}/state/cooldowns.py",
            "until, why = settled_at + settings.eviction,",
            "until, why = settled_at,",
        ),
        tests="tests/descheduler/state/test_cooldowns.py::test_a_moved_pod_starts_a_cooldown_of_its_workload",
    ),
    _defect(
        "dry runs that evict",
        (
            f"{BINDER}/service.py",
            "                dry_run=entry.dry_run or self._dry_run,",
            "                dry_run=False,",
        ),
        tests="tests/binder/test_service.py::test_without_evict_every_post_is_a_dry_run",
        fault="dry_run",
        invariant="I17",
    ),
    _defect(
        "evictions enabled by default",
        (f"{BINDER}/settings.py", "evict: bool = False", "evict: bool = True"),
        tests="tests/binder/test_service.py::test_nothing_is_evicted_by_default",
    ),
    _defect(
        "pause ignored",
        (f"{BINDER}/decisions/admission.py", "    if ledger.paused:", "    if False:"),
        (f"{BINDER}/service.py", "        if ledger.paused:", "        if False:"),
        tests="tests/binder/decisions/test_admission.py::test_a_pause_refuses_before_any_limit",
        fault="paused",
        invariant="I18",
    ),
    # Findings of the security review, in their order
    _defect(
        "recheck off",
        (
            f"{BINDER}/service.py",
            "        return self._clock.monotonic() - valid.read_at < MAX_READ_AGE",
            "        return True",
        ),
        tests="tests/binder/test_read_age.py::test_a_change_during_a_slow_write_of_the_ledger_prevents_the_eviction",
        fault="slow_ledger",
        invariant="I18",
    ),
    _defect(
        "the extender serves any client",
        (f"{SCORER}/settings.py", "    allow_unauthenticated: bool = False", "    allow_unauthenticated: bool = True"),
        tests="tests/scorer/test_service.py::test_a_scorer_that_any_machine_reaches_needs_a_client_ca",
    ),
    _defect(
        "certificates of clients not verified",
        (
            f"{RUNTIME}/http_server/server_certificates.py",
            "        context.verify_mode = ssl.CERT_REQUIRED",
            "        context.verify_mode = ssl.CERT_OPTIONAL",
        ),
        tests="tests/scorer/shell/test_tls.py::test_other_callers_get_no_connection",
    ),
    _defect(
        "connections not limited",
        (
            f"{SCORER}/shell/connections.py",
            '            self._drop(self._established.add(connection, connection.address), "limit")',
            "            self._established.add(connection, connection.address)",
        ),
        tests="tests/scorer/shell/test_connections.py::test_the_connection_in_use_is_kept",
    ),
    _defect(
        "new connections without a deadline",
        (
            f"{SCORER}/shell/connections.py",
            '                    self.settings.handshake_timeout, self._drop, connection, "timeout"',
            '                    3_600.0, self._drop, connection, "timeout"',
        ),
        tests="tests/scorer/shell/test_connections.py::test_slow_heads_end_at_the_deadline",
    ),
    _defect(
        "annotator without proof of its fence",
        (
            f"{RUNTIME}/kubernetes/fence.py",
            "    while kube.as_service_account and (why := ",
            "    while False and (why := ",
        ),
        tests="tests/runtime/kubernetes/test_fence.py::test_it_waits_while_the_policy_is_not_in_effect",
    ),
    _defect(
        "a fence for one namespace",
        (
            "k8s/base/fence.yaml",
            'username.endsWith(":equipoise-annotator")',
            'username.endsWith(":equipoise-system:equipoise-annotator")',
        ),
        tests="tests/e2e/deployed/test_rights.py::test_a_fence_applies_in_any_namespace",
    ),
    _defect(
        "the binder may evict without a UID",
        (
            "k8s/base/fence.yaml",
            '        && has(options.preconditions.uid) && options.preconditions.uid != "")',
            "        )",
        ),
        tests="tests/e2e/deployed/test_rights.py::test_the_binder_fence_refuses",
    ),
    _defect(
        "the binder may evict without an approval",
        ("k8s/base/fence.yaml", '.check("approve").allowed())', '.check("approve").allowed() || true)'),
        tests="tests/e2e/deployed/test_insider.py::test_the_token_of_the_binder_evicts_only_approved_pods",
    ),
    _defect(
        "the descheduler may grant more than approvals",
        ("k8s/base/fence.yaml", "variables.rules.size() <= 1 && ", "true || "),
        tests="tests/e2e/deployed/test_insider.py::test_the_token_of_the_descheduler_grants_nothing_but_approvals",
    ),
    _defect(
        "a rule without names when no pod is approved",
        (f"{CONTRACTS}/eviction/approval.py", "    if not pods:", "    if False:"),
        tests="tests/contracts/eviction/test_approval.py::test_no_rule_is_without_names",
    ),
    _defect(
        "intents that are not approved",
        (
            f"{DESCHEDULER}/shell/evaluator.py",
            "            published = await self._publish(moves) if not problem else []",
            "            published = await self._publish(moves)",
        ),
        tests="tests/descheduler/shell/test_approvals.py::test_nothing_is_proposed_that_cannot_be_approved",
    ),
    _defect(
        "approvals while evictions are dry runs",
        (f"{DESCHEDULER}/shell/evaluator.py", " if evictions == REAL else []", ""),
        tests="tests/descheduler/shell/test_approvals.py::test_nothing_is_approved_while_nothing_is_evicted",
    ),
    _defect(
        "tap may use any reply subject",
        (f"{RUNTIME}/bus/permissions.py", '    inbox = f"_INBOX.{user}.>"', '    inbox = "_INBOX.>"'),
        tests="tests/runtime/bus/test_bus_permissions.py::test_a_service_cannot_reach_around_the_table",
    ),
    _defect(
        "NATS permissions of an older version",
        ("k8s/base/permissions.conf", "      { user: collector,", "      { user: collector2,"),
        tests="tests/deployment/test_manifests.py::test_the_permission_file_is_the_generated_one",
    ),
    _defect(
        "refused intents written to the ledger",
        (
            f"{BINDER}/shell/ledger_writer.py",
            "                if ledger != stored.ledger:\n",
            "                if True:\n",
        ),
        tests="tests/binder/state/test_published_outcomes.py::test_an_intent_that_a_limit_refuses_writes_nothing",
    ),
    _defect(
        "CA of the API server read once",
        (
            f"{RUNTIME}/kubernetes/http/requests.py",
            "                if not await self._credentials.reload_tls(tls):",
            "                if True:",
        ),
        tests="tests/runtime/kubernetes/test_api_server_tls.py::test_a_replaced_ca_is_used_without_a_restart",
    ),
    _defect(
        "readiness without the last success",
        (
            f"{RUNTIME}/process/lifecycle.py",
            "lambda: reached and kube is not None and not kube.problem)",
            "lambda: reached)",
        ),
        tests="tests/runtime/process/test_lifecycle.py::test_a_service_is_not_ready_while_the_api_server_does_not_respond",
    ),
    _defect(
        "ledger of a later format used",
        (
            f"{BINDER}/state/ledger_json.py",
            "    if isinstance(version, int | float) and version > FORMAT_VERSION:",
            "    if False:",
        ),
        tests="tests/binder/shell/test_ledger_store.py::test_a_ledger_of_a_later_version_is_closed",
    ),
    _defect(
        "unknown fields of the ledger dropped",
        (
            f"{BINDER}/state/ledger_json.py",
            '{"unknownFields": {name: value for name, value in document.items() if name not in names}}',
            '{"unknownFields": {}}',
        ),
        tests="tests/binder/shell/test_ledger_store.py::test_a_binder_keeps_what_a_later_version_has_added",
    ),
    _defect(
        "resume forgets an unreadable ledger",
        (f"{BINDER}/shell/ledger_store.py", "            if not forget:", "            if False:"),
        tests="tests/binder/shell/test_ledger_store.py::test_resume_replaces_an_invalid_ledger_only_on_request",
    ),
    _defect(
        "a shorter window forgets evictions",
        (
            f"{BINDER}/state/ledger.py",
            "        if retention < self.retention and now - self.retention_needed_at <= max(self.retention, DAY):",
            "        if False:",
        ),
        tests="tests/binder/state/test_ledger.py::test_the_longest_retention_is_kept_until_no_binder_needs_it",
    ),
    _defect(
        "any lifetime of an intent accepted",
        (f"{BINDER}/decisions/staleness.py", "    if lifetime > max_lifetime:", "    if False:"),
        tests="tests/binder/decisions/test_staleness.py::test_expired_intents_and_samples_of_the_wrong_age_are_refused",
    ),
    _defect(
        "monitor of NATS on every address",
        ("k8s/base/nats.conf", 'http: "127.0.0.1:8222"', 'http: "0.0.0.0:8222"'),
        tests="tests/deployment/test_manifests.py::test_every_port_is_closed_but_those_of_a_network_policy",
    ),
    _defect(
        "NATS without TLS",
        ("k8s/base/nats.conf", "tls {\n", "unused {\n"),
        tests="tests/deployment/test_manifests.py::test_nats_speaks_only_tls",
    ),
    _defect(
        "a stream without a maximum size",
        (
            f"{CONTRACTS}/bus/streams.py",
            "        work_queue=True,\n        max_age=180,\n        max_bytes=32 * 2**20,",
            "        work_queue=True,\n        max_age=180,\n        max_bytes=-1,",
        ),
        tests="tests/runtime/bus/test_bus_streams.py::test_every_stream_has_a_maximum_size",
    ),
    _defect(
        "size of requests not limited",
        (f"{SCORER}/decisions/extender_protocol.py", "    if number > limit:", "    if False:"),
        tests="tests/scorer/decisions/test_extender_protocol.py::test_too_many_values_are_refused_before_they_are_decoded",
    ),
    _defect(
        "bodies of 8 MiB",
        (f"{SCORER}/settings.py", "= 2 * 2**20", "= 8 * 2**20"),
        tests="tests/scorer/shell/test_extender_server.py::test_a_body_above_two_mebibytes_is_refused",
    ),
    _defect(
        "packages installed without hashes",
        ("Dockerfile", "uv pip install --no-build --require-hashes", "uv pip install --no-build"),
        tests="tests/deployment/test_requirements.py::test_every_install_requires_hashes_or_fetches_nothing",
    ),
    _defect(
        "services without a disruption budget",
        ("k8s/base/scorer.yaml", "kind: PodDisruptionBudget", "kind: ConfigMap"),
        tests="tests/deployment/test_manifests.py::test_each_service_is_spread_and_disrupted_one_pod_at_a_time",
    ),
    _defect(
        "a container that may gain privileges",
        ("k8s/base/binder.yaml", "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true"),
        tests="tests/deployment/test_manifests.py::test_every_container_is_restricted",
    ),
    _defect(
        "open network",
        (
            "k8s/base/network.yaml",
            "  podSelector: {}\n  policyTypes: [Ingress]\n",
            "  podSelector: {}\n  policyTypes: []\n",
        ),
        tests="tests/deployment/test_manifests.py::test_every_port_is_closed_but_those_of_a_network_policy",
    ),
    _defect(
        "errors of the API server not cut",
        (f"{RUNTIME}/kubernetes/http/responses.py", "TEXT_LIMIT = 1_000", "TEXT_LIMIT = 1_000_000"),
        tests="tests/runtime/kubernetes/http/test_http.py::test_the_text_of_an_error_is_limited",
    ),
    _defect(
        "clocks of API servers trusted",
        (
            f"{BINDER}/state/ledger.py",
            "    return min(max(window / 50, MIN_CLOCK_TOLERANCE), MAX_CLOCK_TOLERANCE)",
            "    return 0.0",
        ),
        tests="tests/binder/test_skewed_api_servers.py::test_limits_hold_for_one_binder_that_reaches_both_in_turn",
    ),
    _defect(
        "utilization of removed nodes kept",
        (f"{BINDER}/state/cluster_state.py", "                del self.utilizations[name]", "                pass"),
        tests="tests/binder/state/test_cluster_state.py::test_utilization_that_arrives_after_the_removal_of_its_node_is_dropped",
    ),
    # Resources, convergence, secrets
    _defect(
        "a watch that is never given up",
        (
            f"{RUNTIME}/kubernetes/reflector.py",
            "        while (quiet := self._clock.monotonic() - self._received_at) < self._inactivity:",
            "        while (quiet := self._clock.monotonic() - self._received_at) < 1e9:",
        ),
        tests="tests/runtime/kubernetes/test_reflector.py::test_a_half_open_connection_is_noticed",
        fault="watches",
        invariant="I15",
    ),
    _defect(
        "outcomes kept for ever",
        (
            f"{BINDER}/state/published_outcomes.py",
            "        while len(self._outcomes) > _KEPT or self._oldest.settled_at < outcome.settled_at - _RETENTION:",
            "        while False:",
        ),
        tests="tests/binder/state/test_published_outcomes.py::test_only_the_latest_outcomes_are_kept",
    ),
    _defect(
        "variables of every frame logged",
        (
            f"{RUNTIME}/process/logging.py",
            "                exception_formatter=_visible_traceback,",
            "                exception_formatter=structlog.dev.RichTracebackFormatter(show_locals=True),",
        ),
        tests="tests/runtime/process/test_logging.py::test_a_traceback_contains_no_variables",
    ),
    _defect(
        "invalid requests quoted in errors",
        (
            f"{SCORER}/decisions/extender_protocol.py",
            '        raise InvalidRequest(f"the body is not JSON: {error}") from None',
            '        raise InvalidRequest(f"the body is not JSON: {error} {body!r}") from None',
        ),
        tests="tests/scorer/shell/test_extender_server.py::test_invalid_bodies_get_a_json_error",
    ),
    # Reclaimed resources in the status of nodes
    _defect(
        "requests of bound pods ignored",
        (f"{RECLAIMER}/decisions/offer.py", "    amount = max(target, needed)", "    amount = target"),
        tests="tests/reclaimer/decisions/test_offer.py::test_bound_pods_always_fit",
        fault="reclaimers_without_metrics",
        invariant="I21",
    ),
    _defect(
        "amounts in a tenth of a milli-core",
        (f"{RECLAIMER}/decisions/evaluation.py", "_UNITS = (1_000.0, 1.0)", "_UNITS = (10_000.0, 1.0)"),
        tests="tests/reclaimer/test_service.py::test_enforcement_writes_the_offer_to_the_status",
        fault="overwritten_amounts",
        invariant="I22",
    ),
    _defect(
        "a write to the status of a node with an annotation",
        (
            f"{RUNTIME}/kubernetes/http/api_server.py",
            'body={"metadata": {"uid": uid}, "status": {"capacity"',
            'body={"metadata": {"uid": uid, "annotations": {"equipoise.dev/x": ""}}, "status": {"capacity"',
        ),
        tests="tests/reclaimer/test_real_cluster.py::test_a_reclaimer_writes_its_amounts_with_its_own_account",
        fault="overwritten_amounts",
        invariant="I23",
    ),
    # The agent
    _defect(
        "limits that stay when the agent ends",
        (f"{AGENT}/__main__.py", "    program.agent.restore()\n    program.close()", "    program.close()"),
        tests="tests/agent/test_real_cluster.py::test_the_program_limits_survives_and_restores",
        fault="killed_agents",
        invariant="also",
    ),
    _defect(
        "an agent that evicts although evict is false",
        (f"{AGENT}/shell/evictor.py", "        if not self._evict:", "        if False:"),
        tests="tests/monitored/test_faults_of_colocation.py::test_a_node_without_memory",
        fault="killed_agents",
        invariant="I4",
    ),
    # What a tenant says or sends
    _defect(
        "a pod that names the cgroup of another",
        (
            f"{AGENT}/decisions/band_pods.py",
            "        uid=pod.metadata.uid,",
            "        uid=pod.metadata.annotations.get(MIRROR, pod.metadata.uid),",
        ),
        (
            f"{AGENT}/decisions/band_pods.py",
            "or MIRROR in pod.metadata.annotations or",
            "or",
        ),
        tests="tests/agent/shell/cgroups/test_cgroup_tree.py::test_a_forged_pod_writes_nothing_for_others_and_evicts_nobody",
    ),
    _defect(
        "an empty set of CPUs for running pods",
        (
            f"{AGENT}/shell/cgroups/limit_writer.py",
            "            return self.available_cpus(groups)\n        return frozenset()",
            "            return frozenset()\n        return frozenset()",
        ),
        tests="tests/agent/shell/cgroups/test_cgroup_tree.py::test_a_set_of_cpus_of_v2_is_lifted_while_pods_run",
    ),
    _defect(
        "requests without a deadline",
        (
            f"{RUNTIME}/http_server/connections.py",
            "        return asyncio.get_running_loop().call_later(seconds, self.abort)",
            "        return asyncio.get_running_loop().call_later(3_600, self.abort)",
        ),
        tests="tests/runtime/http_server/test_connections.py::test_a_client_that_does_not_read_its_response_is_closed",
    ),
    _defect(
        "annotations quoted completely",
        (
            f"{CONTRACTS}/eviction/protection.py",
            '    return plain_text(reason, REASON_LIMIT) if reason else ""',
            "    return reason",
        ),
        tests="tests/contracts/eviction/test_protection.py::test_a_reason_is_short_and_has_no_control_character",
    ),
    _defect(
        "control characters on the terminal",
        (f"{RUNTIME}/process/visible_stream.py", "write(visible(text))", "write(text)"),
        tests="tests/cli/test_visible_output.py::test_whatever_a_command_prints_is_text",
    ),
    _defect(
        "a shared hint of other workloads",
        (f"{CONTRACTS}/hints/hints_object.py", "workloads[key] = places[hint]", "workloads[key] = 0"),
        tests="tests/contracts/hints/test_hints.py::test_an_object_holds_a_hint_once_that_several_workloads_have",
    ),
    _defect(
        "hints shared although they lead to loaded nodes",
        (
            f"{SCORER}/decisions/placement_hints/sharing.py",
            "        lost = np.maximum(lost, worst",
            "        lost = np.minimum(lost, worst",
        ),
        tests="tests/scorer/decisions/placement_hints/test_sharing.py::test_a_workload_loses_what_avoided_nodes_have_more",
    ),
    _defect(
        "hints that make a pod too large",
        (
            f"{CONTRACTS}/hints/policy.py",
            '    "room-for-an-annotation": room_for_annotations("1024"),',
            '    "room-for-an-annotation": "true",',
        ),
        ("k8s/hints/policy.yaml", "<= 262144 - (1024)", "<= 999999999"),
        tests="tests/e2e/test_placement_hints.py::test_other_pods_are_created_as_they_are",
    ),
    _defect(
        "a scheduler that deletes any pod",
        (
            "k8s/scheduler/equipoise-scheduler.yaml",
            """'!variables.deletion || !("equipoise.dev/evict" in oldObject.metadata.?annotations.orValue({}))'""",
            "'true'",
        ),
        tests="tests/e2e/test_second_scheduler.py::test_only_recorded_victims_outside_of_the_system_can_be_deleted",
    ),
    _defect(
        "a webhook that stays while it is slow",
        (f"{ANNOTATOR}/decisions/webhook_guard.py", "    if enabled and slow >= SLOW_RESPONSES:", "    if False:"),
        tests="tests/annotator/decisions/test_webhook_guard.py::test_two_slow_responses_in_a_row_remove_the_webhook",
    ),
    _defect(
        "a webhook that stays while nobody measures it",
        (f"{ANNOTATOR}/decisions/webhook_guard.py", "    if enabled and seconds >= UNKNOWN_SECONDS:", "    if False:"),
        tests="tests/annotator/decisions/test_webhook_guard.py"
        "::test_a_webhook_that_nobody_could_measure_for_half_a_minute_is_removed",
    ),
    _defect(
        "a webhook that is called before it was healthy for a minute",
        (f"{ANNOTATOR}/decisions/webhook_guard.py", " and now - since >= HEALTHY_SECONDS:", ":"),
        tests="tests/annotator/decisions/test_webhook_guard.py::test_a_healthy_minute_restores_it",
    ),
    _defect(
        "a webhook that can refuse pods",
        (f"{CONTRACTS}/hints/webhook.py", '        "failurePolicy": "Ignore",', '        "failurePolicy": "Fail",'),
        tests="tests/annotator/decisions/test_webhook_guard.py::test_no_webhook_can_refuse_or_delay_pods",
    ),
    _defect(
        "expired hints given by the webhook",
        (f"{ANNOTATOR}/decisions/hint_admission.py", "    if not _is_fresh(pod, stored):", "    if False:"),
        tests="tests/annotator/decisions/test_hint_admission.py::test_hints_expire_by_the_time_of_the_request",
    ),
    _defect(
        "credentials sent to a Prometheus that was found",
        (f"{RUNTIME}/configuration/discovered.py", "        if foreign and is_private(name):", "        if False:"),
        tests="tests/runtime/configuration/test_configuration.py"
        "::test_what_was_discovered_is_used_if_the_configuration_names_no_source",
    ),
    # Moves without a gap
    _defect(
        "a pod evicted before its replacement is ready",
        (
            f"{BINDER}/decisions/surge/next_step.py",
            "    return ready_pods(observed, now, required_period(observed)) >= needed_pods(move, observed)",
            "    return True",
        ),
        tests="tests/binder/decisions/surge/test_surge_laws.py::test_no_endpoint_is_missing_because_of_a_move_and_every_move_ends",
        fault="moves_replacements_fail",
        invariant="I24",
    ),
    _defect(
        "a move that is given up while its pod is detached",
        (
            f"{BINDER}/decisions/surge/next_step.py",
            "if attached else Restore()",
            'if attached else End(outcome=Outcome.FAILED, detail="given up")',
        ),
        tests="tests/binder/decisions/surge/test_surge.py::test_a_pod_whose_replacement_is_not_ready_in_time_is_given_back",
        fault="moves_replacements_fail",
        invariant="I25",
    ),
    _defect(
        "a restored pod reported as evicted",
        (
            f"{BINDER}/decisions/surge/next_step.py",
            'End(outcome=Outcome.FAILED, detail=f"the pod was restored: {move.why}{left_over}")',
            'End(outcome=Outcome.EVICTED, detail=f"the pod was restored: {move.why}{left_over}")',
        ),
        tests="tests/binder/decisions/surge/test_surge_next_step.py::test_a_restored_pod_ends_the_move_with_the_reason",
        fault="moves_replacements_fail",
        invariant="I26",
    ),
    _defect(
        "any pod may be detached",
        (
            "k8s/base/fence.yaml",
            '.name(oldObject.metadata.uid).check("approve").allowed()',
            '.name(oldObject.metadata.uid).check("approve").allowed() || true',
        ),
        tests="tests/binder/test_surge_fence.py::test_a_pod_without_approval_is_not_detached",
        fault="moves_deschedulers_killed",
        invariant="I27",
    ),
    _defect(
        "any number of moves at the same time",
        (
            f"{BINDER}/decisions/surge/plan.py",
            'pods are being moved without a gap (surge.maxMoves)" if count >= max_moves else ""',
            'pods are being moved without a gap (surge.maxMoves)" if count > 100 else ""',
        ),
        tests="tests/binder/state/test_surge_move.py::test_moves_of_other_workloads_take_slots_too",
        fault="moves_binders_killed",
        invariant="I28",
    ),
    _defect(
        "a pod that goes back during a rollout",
        (
            f"{BINDER}/decisions/surge/next_step.py",
            "        if ready or is_rolling_out(observed) or restoring",
            "        if ready or restoring",
        ),
        (
            f"{BINDER}/decisions/surge/next_step.py",
            "    if is_rolling_out(observed):\n        return Wait",
            "    if False:\n        return Wait",
        ),
        tests="tests/binder/decisions/surge/test_surge_next_step.py::test_no_pod_is_restored_during_a_rollout",
        fault="moves_rolled_out",
        invariant="I29",
    ),
    # Pressure
    _defect(
        "pressure in any unit",
        (
            f"{COLLECTOR}/decisions/pressure/pressure_readings.py",
            "    wrong = {name: value for name, value in values.items() if MAX_SHARE < value < math.inf}",
            "    wrong = {name: value for name, value in values.items() if 1e9 < value < math.inf}",
        ),
        tests="tests/collector/decisions/pressure/test_pressure_readings.py::test_a_wrong_unit_of_one_node_does_not_affect_the_others",
    ),
    _defect(
        "throttled pods are contention",
        (
            f"{CONTRACTS}/load/pressure.py",
            "    if not any(is_throttled(pod) for pod in pods.values()):",
            "    if True:",
        ),
        tests="tests/contracts/load/test_pressure.py::test_a_pod_that_its_own_limit_stops_is_no_evidence_of_contention",
    ),
    _defect(
        "targets with pressure",
        (
            f"{DESCHEDULER}/state/nodes/node_reader.py",
            "            or target_problem(pressure, thresholds)",
            "            or target_problem(None, thresholds)",
        ),
        tests="tests/descheduler/decisions/test_contention.py::test_a_node_with_half_of_the_pressure_is_no_target",
    ),
)
