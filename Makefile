# Needs Python 3.11 or newer, pip and make; everything else comes from the lock files into .venv.
# Another interpreter: make PYTHON=python3.13 …

.DEFAULT_GOAL := help
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin

PYTHON ?=
APP ?= examples.hello:app
DATA_DIR ?=
SCENARIO ?=
SECONDS ?= 300
SEED ?= 1
OUTAGE ?=
SITE ?= build/site
SITE_URL ?= /
# Many tests wait for processes and timers, so two cores are busy with six: seven minutes, and eight and a half with four.
# Each takes 10 s of CPU time to collect the tests and start its server.
PYTEST_ARGS ?= -n $(shell expr $$(nproc 2>/dev/null || echo 2) + 4) --maxprocesses 8

.PHONY: help up test brokers long deep browser forecast pauses attack lint types layers unit bench bench-docs chaos graphs docs docs-site images release lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: $(VENV)/.runtime ## run everything in one process, on SQLite (APP=module:app, DATA_DIR=folder)
	@exec $(BIN)/duetime up $(APP) $(if $(DATA_DIR),--data-dir $(DATA_DIR))

# Real processes under load, and what takes many seconds of CPU time a file: `make long` runs these; `make chaos` and
# `make bench` do the same at length.
LONG := tests/oracle tests/sdk_types tests/api/test_openapi.py tests/api/test_odd_texts.py tests/contract/test_archive.py \
	tests/contract/test_alert_subjects.py tests/targets/test_signed_storage.py tests/targets/test_kubernetes.py \
	tests/contract/test_state_machine.py tests/deploy/test_package.py tests/unit/test_schedule_laws.py \
	tests/integration/test_ahead.py tests/integration/test_celery_shop_commands.py tests/integration/test_child_batches.py \
	tests/integration/test_child_starts.py tests/integration/test_embedded.py \
	tests/integration/test_forked_children.py tests/integration/test_framework_processes.py \
	tests/integration/test_unguarded_scripts.py tests/integration/test_pgbouncer.py tests/integration/test_stopping.py \
	tests/integration/test_archive.py tests/integration/test_archive_commands.py tests/integration/test_hostile_text.py \
	tests/integration/test_list_plans.py tests/api/test_generated_client.py \
	tests/integration/test_hosts.py tests/integration/test_replica.py \
	tests/integration/test_middleware.py tests/integration/test_places.py tests/integration/test_pytest_plugin.py \
	tests/integration/test_real_provider.py tests/integration/test_reloading.py tests/integration/test_schedule_in_turn.py \
	tests/integration/test_sharing_a_file.py tests/integration/test_typed_tasks.py tests/telemetry/test_sentry.py \
	tests/unit/test_support_databases.py tests/unit/test_support_launcher.py tests/unit/test_support_postgres.py
# The same, where other tests beside it would disturb it.
ALONE := tests/bench tests/chaos tests/fault tests/api/test_pauses.py tests/api/test_loop_pauses.py

# Stream queues: `make brokers` runs these with every broker.
STREAMS := $(wildcard tests/contract/test_*streams.py) tests/api/test_stream_queues.py \
	$(wildcard tests/integration/test_stream_*.py) \
	tests/integration/test_redis_limits.py tests/targets/test_publishing_brokers.py \
	tests/integration/test_sources_brokers.py
STREAMS_LONG := tests/fault/test_stream_workers.py tests/fault/test_stream_deaths.py tests/fault/test_kafka_cluster.py \
	tests/integration/test_streams_end_to_end.py tests/integration/test_brokers_end_to_end.py

# What `make test` leaves to `make browser`: it opens every page, judges it with axe, fills in forms and acts on lists.
BROWSER_LONG := $(filter-out $(addprefix tests/browser/test_,pages.py job_form.py safety.py wholesale.py), \
	$(wildcard tests/browser/test_*.py))

# On a clean clone one process compiles the tests and writes down Hypothesis's table of characters: else each of those
# that run them would.
test: lint ## every check, and every test that is not long (PYTEST_ARGS=…)
	@echo "• pytest; mypy and lint-imports beside it"
	@{ $(BIN)/mypy --no-error-summary && $(BIN)/lint-imports --no-logo --no-cache; } > $(VENV)/checks.log 2>&1 & checks=$$!; \
	scripts/chromium & browser=$$!; \
	[ -d .hypothesis ] || $(BIN)/python -c 'from hypothesis.strategies import text; text().validate()'; \
	[ -d tests/__pycache__ ] || $(BIN)/python -m pytest -qq --collect-only > $(VENV)/collected.log 2>&1; \
	wait $$browser; \
	$(BIN)/python -m pytest --short $(PYTEST_ARGS) $(addprefix --ignore=,$(LONG) $(ALONE) $(STREAMS) $(STREAMS_LONG) $(BROWSER_LONG)); tests=$$?; \
	wait $$checks || { cat $(VENV)/checks.log; exit 1; }; \
	exit $$tests

brokers: $(VENV)/.dev ## stream queues with every broker: Redis, RabbitMQ, Kafka, SQS (PYTEST_ARGS=…)
	@scripts/rabbitmq; scripts/jvm-servers
	@echo "• pytest, the tests of brokers"
	@$(BIN)/python -m pytest $(PYTEST_ARGS) $(STREAMS) $(STREAMS_LONG)

long: $(VENV)/.dev ## the tests that take minutes, and on both stores those that make test runs on one
	@scripts/identity-provider
	@echo "• pytest, what runs alone"
	@$(BIN)/python -m pytest $(ALONE)
	@echo "• pytest, the long files"
	@$(BIN)/python -m pytest $(PYTEST_ARGS) $(LONG)
	@echo "• pytest, above the stores"
	@$(BIN)/python -m pytest $(PYTEST_ARGS) tests/api tests/integration tests/targets tests/telemetry

deep: $(VENV)/.dev ## schedules against their oracles, and stores against their model, with many more examples
	@HYPOTHESIS_PROFILE=deep $(BIN)/python -m pytest $(PYTEST_ARGS) --timeout 3600 tests/oracle tests/contract/test_state_machine.py

browser: $(VENV)/.dev ## the dashboard in a real Chromium only, single sign-on included; screenshots are kept in tests/browser
	@scripts/chromium; scripts/identity-provider
	@echo "• pytest tests/browser"
	@$(BIN)/python -m pytest tests/browser

forecast: $(VENV)/.dev ## forecasts against fires: ten thousand pairs of a job and a window, in each store
	@DUETIME_TEST_FORECAST=10000 $(BIN)/python -m pytest -q $(PYTEST_ARGS) tests/contract/test_forecast.py

pauses: $(VENV)/.dev ## the longest pause of the event loop, over all endpoints and the largest bodies (takes minutes)
	@DUETIME_TEST_PAUSES=1 $(BIN)/python -m pytest -q -s -o timeout=1800 tests/api/test_loop_pauses.py tests/api/test_pauses.py

attack: $(VENV)/.dev ## 1,000 slow connections, 200 that read nothing and 150 MB of headers at once, on each store: what others notice
	@$(BIN)/python -m tests.attack

lint: $(VENV)/.dev ## ruff: rules and format
	@echo "• ruff check"
	@$(BIN)/ruff check --quiet .
	@echo "• ruff format --check"
	@$(BIN)/ruff format --quiet --check . || { \
		echo "  to fix: $(BIN)/ruff format ." >&2; exit 1; }

types: $(VENV)/.dev ## mypy --strict
	@echo "• mypy"
	@$(BIN)/mypy --no-error-summary

layers: $(VENV)/.dev ## imports point downwards only
	@echo "• lint-imports"
	@$(BIN)/lint-imports --no-logo --no-cache

unit: $(VENV)/.dev ## the quick tests only (PYTEST_ARGS=…)
	@echo "• pytest tests/unit"
	@$(BIN)/python -m pytest $(PYTEST_ARGS) tests/unit

bench: $(VENV)/.dev ## measure beside the limit and the peers (SCENARIO=name PEERS=0 ROUNDS=3 STORED=10000000)
	@$(BIN)/python -m bench $(SCENARIO); status=$$?; \
	case $$status in 0|3) $(BIN)/python -m bench.documents || exit;; esac; \
	exit $$status

bench-docs: $(VENV)/.dev ## write the plots, docs/performance.md, docs/scaling.md and README's figures again from bench/results
	@$(BIN)/python -m bench.documents

chaos: $(VENV)/.dev ## break it on purpose, and see what holds (SECONDS=300 SEED=1 SCENARIO=name OUTAGE=60)
	@$(BIN)/python -m chaos run --seconds $(SECONDS) --seed $(SEED) $(if $(SCENARIO),--scenario $(SCENARIO)) \
		$(if $(OUTAGE),--outage $(OUTAGE))

graphs: $(VENV)/.dev ## 200 graphs of 1,000 nodes against a reference, on both stores
	@$(BIN)/python -m tests.graphs

docs: $(VENV)/.dev ## write docs/settings.md, docs/options.md, the diagram of packages and openapi.json from the code
	@$(BIN)/python -m tests.support.settings_doc
	@$(BIN)/python -m tests.support.options_doc
	@$(BIN)/python -m tests.support.packages_doc
	@$(BIN)/python -m tests.support.openapi_file

docs-site: $(VENV)/.docs ## build the documentation site, without a warning, and open every page in Chromium (SITE=folder SITE_URL=/)
	@echo "• sphinx"
	@$(BIN)/python docs/website/build.py --site $(SITE) --url $(SITE_URL)
	@scripts/chromium
	@echo "• pytest, the tutorial, and every page of the site in a browser"
	@DUETIME_TEST_SITE=$(SITE) $(BIN)/python -m pytest -q tests/browser/test_tutorial.py tests/browser/test_site.py

images: $(VENV)/.dev ## the screenshots of README and docs, made by the browser tests
	@scripts/chromium
	@$(BIN)/python -m pytest -q tests/browser/test_pages.py tests/browser/test_waiting.py tests/browser/test_management.py
	@for each in dashboard:now dead-letters:dead-letters graph:graph calendar:calendar waiting:run-waiting run:run-attempts \
		workers:workers-past queue-limits:queue-limits trends:trends schedules:schedules notifications:notifications-form; do \
		cp tests/browser/screenshots/$${each#*:}.png docs/images/$${each%:*}.png; done

release: $(VENV)/.dev ## build and check the sdist, the wheel and their bill of materials (CycloneDX) in dist; uploads nothing
	@rm -rf dist
	@echo "• sdist and wheel"
	@$(BIN)/python -m hatchling build -t sdist -t wheel
	@echo "• bill of materials"
	@$(BIN)/python scripts/sbom "$$(ls dist/*.whl | sed 's/-py3-none-any\.whl$$/.cdx.json/')"
	@echo "• the package in a new environment, the version and the changelog"
	@DUETIME_TEST_DIST=dist $(BIN)/python -m pytest -q tests/deploy/test_package.py
	@cd dist && sha256sum -- * > SHA256SUMS && cat SHA256SUMS
	@echo "dist is complete; nothing was uploaded"

lock: ## write the lock files again from pyproject.toml
	@scripts/lock

clean: ## remove .venv and caches; duetime-data stays
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is newer than what it was made from, so a second run costs nothing. Modules are compiled when they are first
# imported: most never are.

$(VENV)/.runtime: requirements.lock pyproject.toml | $(BIN)/python
	@echo "• installing what duetime needs"
	@scripts/install requirements.lock
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.runtime
	@echo "• installing the tools for tests"
	@scripts/install requirements-dev.lock
	@touch $@

$(VENV)/.docs: requirements-docs.lock $(VENV)/.dev
	@echo "• installing what builds the documentation site"
	@scripts/install requirements-docs.lock
	@touch $@

$(BIN)/python:
	@for python in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
		"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
		echo "• making $(VENV) with $$("$$python" --version)"; \
		"$$python" -m venv $(VENV) && exit 0; \
		rm -rf $(VENV); \
		echo "$$python cannot make a virtual environment: is its venv module installed (python3-venv)?" >&2; \
		exit 1; \
	done; \
	echo "duetime needs Python 3.11 or newer, and found: $$(python3 --version 2>&1 || true)" >&2; \
	echo "install one, or name it: make PYTHON=/path/to/python3 …" >&2; \
	exit 1
