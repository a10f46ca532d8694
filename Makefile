# What must be there: Python >= 3.11, make, git and a C/C++ compiler. The rest is installed into .venv by the first
# target that needs it; the second time that is a look at one stamp file.

PYTHON ?= python3
ARGS ?=

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup bench levers test lint lock clean

STAMP := .venv/.installed

help: ## list the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 8
	@echo 'ARGS="..." is handed on, as in: make bench ARGS="--budget-profile=shared"'

setup: $(STAMP) ## install everything into .venv (the first time: about 10 minutes, most of it compiling llama.cpp)

bench: $(STAMP) ## run the budget suite; what it measured goes to results/<UTC time>/
	@out="results/$$(date -u +%Y%m%dT%H%M%SZ)"; mkdir -p "$$out"; set -x; \
	.venv/bin/pytest --benchmark-json="$$out/results.json" $(ARGS)

levers: $(STAMP) ## measure what each lever is worth, and the hesitant clips; some 230 live turns
	.venv/bin/python -m firstsound levers $(ARGS)

test: $(STAMP) ## run this project's own tests
	.venv/bin/pytest tests/unit tests/properties tests/contract tests/plugin $(ARGS)

lint: $(STAMP) ## ruff and mypy
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy

lock: ## make requirements.lock again from pyproject.toml; ARGS=--upgrade also takes newer releases
	tool="$$(mktemp -d)"; trap 'rm -rf "$$tool"' EXIT; \
	$(PYTHON) -m venv "$$tool"; "$$tool/bin/pip" install --quiet uv; \
	"$$tool/bin/uv" pip compile pyproject.toml --extra local --group test --group lint \
	    --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command 'make lock' \
	    --quiet --output-file requirements.lock $(ARGS)

clean: ## remove .venv and what tools have left; results/ stays
	rm -rf .venv .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache build src/*.egg-info
	find conftest.py src tests fixtures -name __pycache__ -prune -exec rm -rf {} +

# pip -v says what it fetches, and each command of the compilation; this keeps "Collecting numpy==2.4.6" and
# "[12/193] ggml.c". The rest is for the log.
PROGRESS := s/^(Collecting|Processing) ([^ ]+).*/\1 \2/p; \
            s/^(Installing collected packages):.*/\1/p; \
            s/^(Building wheels|ERROR).*/&/p; \
            s|^ *(\[[0-9]+/[0-9]+\]) .* -c .*/([^/]+)$$|\1 \2|p

# llama.cpp's AMX kernels crash in their first product on some virtual machines (ggml-org/llama.cpp issue 20824).
WITHOUT_AMX := $(shell c++ -mno-amx-tile -mno-amx-int8 -E -x c++ /dev/null >/dev/null 2>&1 && \
                       echo -mno-amx-tile -mno-amx-int8)
# A home folder may be shared: what was compiled for one processor, or with other flags, must not be taken for another.
WHEELS = $${XDG_CACHE_HOME:-$$HOME/.cache}/firstsound-pip/$(shell \
    { grep -m1 -E '^(flags|Features)' /proc/cpuinfo; echo $(WITHOUT_AMX); } | cksum | cut -d ' ' -f 1)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer, please: PYTHON=...")'
	@# A .venv without its stamp is what an interrupted install left.
	@test -e $@ || rm -rf .venv
	@rm -f $@
	$(PYTHON) -m venv .venv
	@# llama-cpp-python comes as source only.
	@echo 'Installing requirements.lock; the first time, llama.cpp compiles for about 8 minutes on two cores.'
	@CMAKE_BUILD_PARALLEL_LEVEL=$$(nproc) CFLAGS="$${CFLAGS:-} $(WITHOUT_AMX)" CXXFLAGS="$${CXXFLAGS:-} $(WITHOUT_AMX)" \
	    .venv/bin/python -m pip install -v --disable-pip-version-check --cache-dir "$(WHEELS)" \
	    --progress-bar off --require-hashes --no-deps -r requirements.lock 2>&1 \
	    | tee .venv/install.log | sed -unE '$(PROGRESS)' \
	    || { tail -n 60 .venv/install.log; echo 'The whole log: .venv/install.log'; exit 1; } >&2
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index -e .
	@touch $@
