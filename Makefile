# Python 3.11+, git and make are all a machine needs: ./run brings the rest from the package registries.
PYTHON ?= python3
TRACE ?=
BENCH ?=
SEEDS ?=
FAULTS ?=
PLANTED ?=
ARGS ?=
export PYTHON
.DEFAULT_GOAL := help

.PHONY: help demo test test-unit chaos check bench up clean

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## The whole loop on a throwaway real cluster (TRACE=DIR replays a slice of a trace)
	@./run equipoise demo $(if $(TRACE),--trace "$(TRACE)") $(ARGS)

up: ## All five services against your kubeconfig's context; evictions stay dry-run (ARGS="--prometheus URL")
	@./run equipoise up $(ARGS)

test: ## Every test: on real clusters, and beside them those that need none
	@./run pytest -n 3 $(ARGS)

test-unit: ## The tests that need no cluster
	@./run pytest -n 3 -m "not cluster" $(ARGS)

chaos: ## Weekly: faults on a real cluster (SEEDS=1-20 FAULTS=name,name), the demo in full; or PLANTED=1|real defects
	@./run env PYTHONPATH=tests python -m $(if $(PLANTED),faults.planted $(if $(filter real,$(PLANTED)),--real),faults \
		$(if $(SEEDS),--seeds $(SEEDS)) $(if $(FAULTS),--faults $(FAULTS))) $(ARGS)
	$(if $(PLANTED)$(SEEDS)$(FAULTS)$(ARGS),,@./run pytest -m weekly)

check: ## Style, types, architecture, and whether docs/asyncapi.yaml and docs/events.md are what the code says
	@./run sh -c 'ruff format --check . && ruff check . && mypy && lint-imports && pytest -q tests/cli/test_events.py'

bench: ## Speed and memory, a JSON line each (BENCH="name name" for a choice)
	@./run python -m bench $(BENCH)

clean: ## Remove what was installed here (the testbed's cache outside stays)
	@rm -rf .venv .tools
