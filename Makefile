# From a fresh clone with only Python 3.11 or newer: every target sets up .venv first.
# ARGS goes to the program behind a target: make test ARGS="-k election", make bench ARGS="--help".
PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
# Tests start klamm hundreds of times: without a bytecode cache each start takes twice the time.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help install demo test test-slow test-containers coverage chromium check bench docs peer-kafka clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

.venv/.ready: pyproject.toml setup.py constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "klamm needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@echo "Setting up .venv: pip downloads and installs all packages, 1.2 GB; takes a few minutes"
	$(PYTHON) -m venv .venv
	@# Not --quiet: a line for each package shows the progress, also in a pipe.
	$(BIN)/python -m pip install -c constraints.txt -e '.[dev]'
	@touch $@

install: .venv/.ready ## set up .venv with the command .venv/bin/klamm

demo: .venv/.ready ## take the tour: a cluster, two failures, all checks, a Spark job
	$(BIN)/klamm demo $(ARGS)

# Three processes on two cores, because many tests wait for a session to expire.
test: .venv/.ready ## run the quick tests
	$(BIN)/pytest -n 3 -m "not slow and not containers" $(ARGS)

test-slow: .venv/.ready ## run only the tests that take more than five seconds
	$(BIN)/pytest -n 3 -m "slow and not containers" $(ARGS)

test-containers: .venv/.ready ## run the tests in containers; as root, on a private Docker engine
	$(BIN)/python -m tests.containers.run $(ARGS)

coverage: .venv/.ready ## measure the branch coverage of the quick tests
	$(BIN)/pytest -n 3 -m "not slow and not containers" --cov --cov-report=term:skip-covered $(ARGS)

chromium: ## install Chromium for the browser test, unless it is there; as root, with apt-get
	@command -v chromium google-chrome >/dev/null || { apt-get update --quiet && \
	  DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends chromium; }

check: .venv/.ready ## run ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/.ready ## measure klamm against Kafka's controller and a bare store (ARGS=--help)
	$(BIN)/python -m bench.run $(ARGS)

docs: .venv/.ready ## regenerate generated docs
	$(BIN)/python -m docs.generate

peer-kafka: .venv/.ready ## fetch Kafka 2.8.2's own jars (Maven), for comparisons
	bench/kafka/fetch.sh

clean: ## remove .venv and all caches
	rm -rf .venv .editable .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
