# Requires Python 3.11+, git and make. ./run installs everything else from the package registries.
PYTHON ?= python3
TRACE ?=
BENCH ?=
SEEDS ?=
FAULTS ?=
SOAK ?=
JOBS ?=
PLANTED ?=
ARGS ?=
export PYTHON
.DEFAULT_GOAL := help

.PHONY: help demo test test-unit chaos check lock monitoring release docs bench up clean

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## Run Equipoise on a throwaway real cluster (TRACE=DIR replays a slice of a trace)
	@./run equipoise demo $(if $(TRACE),--trace "$(TRACE)") $(ARGS)

up: ## Run Equipoise against the context of your kubeconfig, without evictions or annotations (ARGS="--prometheus URL" if it is not found)
	@./run equipoise up $(ARGS)

test: ## Run all tests: on real clusters, and in parallel the tests that need none
	@./run pytest -n 3 $(ARGS)

test-unit: ## Run the tests that need no cluster
	@./run pytest -n 3 -m "not cluster" $(ARGS)

chaos: ## Weekly: inject faults on real clusters (SEEDS=1-20 JOBS=2 FAULTS=name,name ARGS=--long) and run the demo; or SOAK=1h, or PLANTED=1|real
	@./run env PYTHONPATH=tests python -m $(if $(PLANTED),faults.planted $(if $(filter real,$(PLANTED)),--real),faults \
		$(if $(SEEDS),--seeds $(SEEDS)) $(if $(FAULTS),--faults $(FAULTS)) $(if $(SOAK),--soak $(SOAK))) $(if $(JOBS),--jobs $(JOBS)) $(ARGS)
	$(if $(PLANTED)$(SOAK)$(SEEDS)$(FAULTS)$(ARGS),,@./run pytest -m weekly)

check: ## Check style, types, architecture, the links of the docs, and that docs/asyncapi.yaml, docs/events.md and the chart match the code
	@./run sh -c 'ruff format --check . && ruff check . && mypy && lint-imports && pytest -q tests/cli/events/test_events.py tests/deployment/test_chart_generator.py && python docs/build_site.py'

lock: ## Write the versions and hashes in requirements/ after a change of dependencies (ARGS=--upgrade for the newest)
	@requirements/lock.sh $(ARGS)

monitoring: ## Write the alerts, runbooks and dashboards after a change of monitoring/
	@./run python -m monitoring

release: ## Build a release into dist/: packages, image, chart, SBOM, checksums, signature (ARGS="--tag v0.1.0", ARGS=--without-image)
	@./run python -m release build $(ARGS)

docs: ## Build the documentation as one site, into site/
	@./run python docs/build_site.py

bench: ## Measure speed and memory, one JSON line per benchmark (BENCH="name name" selects some)
	@./run python -m bench $(BENCH)

.PHONY: chart
chart: ## Write charts/equipoise from k8s/base, after a change there, of the rules, the dashboards or charts/generator
	@./run python -m charts.generator

clean: ## Remove what ./run installed here (not the cache of the testbed, which is elsewhere)
	@rm -rf .venv .tools
