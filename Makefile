# From a fresh clone with only Python 3.11 or newer: every target sets up .venv first.
# ARGS goes to the program behind a target: make test ARGS="-k election", make bench ARGS="--help".
PYTHON ?= python3
ARGS ?=
BIN := .venv/bin

.PHONY: help install demo test test-slow test-containers check bench docs peer-kafka clean

help: ## say what each target does
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

.venv/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "klamm needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@# For mypy and editors, which do not follow the finder of an editable install.
	@mkdir -p .venv/editable && ln -sfn ../.. .venv/editable/klamm
	@touch $@

install: .venv/.ready ## set up .venv; klamm is .venv/bin/klamm then

demo: .venv/.ready ## run the main job: a cluster, two losses, every check, the Spark job
	$(BIN)/klamm demo $(ARGS)

test: .venv/.ready ## the quick suite
	$(BIN)/pytest -n 2 -m "not slow and not containers" $(ARGS)

test-slow: .venv/.ready ## the tests that take more than five seconds, alone
	$(BIN)/pytest -n 2 -m "slow and not containers" $(ARGS)

test-containers: .venv/.ready ## tests in containers; as root, on a private Docker engine
	$(BIN)/python -m tests.containers.run $(ARGS)

check: .venv/.ready ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/.ready ## every job beside Kafka's controller and the store alone (ARGS=--help)
	$(BIN)/python -m bench.run $(ARGS)

docs: .venv/.ready ## regenerate generated docs
	$(BIN)/python -m docs.generate

peer-kafka: .venv/.ready ## fetch Kafka 2.8.2's own jars (Maven), to compare with
	bench/kafka/fetch.sh

clean: ## remove the environment and every cache
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
