# `make bench` and `make test` do their own set-up; the second time it is there already.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
READY := .venv/ready
TESTS := tests/unit tests/properties tests/contract tests/plugin

.PHONY: help setup bench test lint lock clean

help: ## say what there is
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile

setup: $(READY) ## make the virtual environment with all that the others need

bench: $(READY) ## run the budget suite (options: make bench ARGS="--budget-profile=shared")
	$(BIN)/pytest $(ARGS)

test: $(READY) ## run the tests of firstsound itself
	$(BIN)/pytest $(TESTS) $(ARGS)

lint: $(READY) ## check style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

lock: ## resolve the pinned versions anew (needs uv)
	uv pip compile pyproject.toml --extra local --group test --group lint --universal --python-version 3.11 \
		--generate-hashes --no-header --no-annotate --upgrade --quiet --output-file requirements.lock

clean: ## remove what was made, results too
	rm -rf .venv results

# The stamp is written last, so an interrupted installation is taken up again. pip is verbose because llama-cpp-python
# compiles for minutes: its progress is shown, the rest goes to the log.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "firstsound needs Python 3.11 or newer; name one with: make PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing pinned packages; llama-cpp-python is compiled (about 10 minutes on two cores the first time)."
	@$(BIN)/python -m pip install --verbose --require-hashes --no-deps -r requirements.lock 2>&1 | tee .venv/install.log \
		| awk '/^ *\[[0-9]+\/[0-9]+\]/ { print "  compiling " $$1; fflush(); next } \
			/^ *(Building wheel|Installing collected|Successfully built)/ { print substr($$0, 1, 100); fflush() }' \
		|| { echo "The installation failed; the end of .venv/install.log:"; tail -n 40 .venv/install.log; exit 1; }
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(READY)
