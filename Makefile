# Every target sets up .venv by itself; only Python 3.11 or newer is needed.

PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)
UV ?= uv
BIN := .venv/bin
STAMP := .venv/.installed
# JAX uses several threads in each process, so more workers than this only get in each other's way.
PYTEST := $(BIN)/pytest -n auto --maxprocesses 4 -rs

# Its theme would print a notice about a coming version of MkDocs.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format docs docs-serve lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(STAMP) ## Watch Adam lose plasticity and reset methods keep it: three minutes, report in demo/
	$(BIN)/python examples/plasticity_demo.py

test: lint ## Lint, then run the tests
	$(PYTEST)

test-all: lint ## Lint, then run every test, the slow ones too, with more random examples
	HYPOTHESIS_PROFILE=thorough $(PYTEST) -m ""

lint: $(STAMP) ## Check style, types and who imports whom
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright
	$(BIN)/lint-imports

format: $(STAMP) ## Apply the style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(STAMP) ## Build the documentation into site/, to be opened in a browser
	$(MKDOCS) build --strict

docs-serve: $(STAMP) ## Show the documentation on this machine, built anew at every change
	$(MKDOCS) serve

lock: ## Write requirements.lock anew from pyproject.toml (needs uv); keeps the pins that still fit
	$(UV) pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
		--generate-hashes --custom-compile-command "make lock" --output-file requirements.lock

clean: ## Remove everything the other targets made, .venv too
	rm -rf .venv demo dist site .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp comes last, so that an interrupted installation is taken up again.
# A .venv that is already there is kept when its pip works.
$(STAMP): requirements.lock pyproject.toml
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
		test -n "$(PYTHON)" || { \
			echo "Python 3.11 or newer was not found; name one with: make PYTHON=/path/to/python" >&2; \
			exit 1; }; \
		"$(PYTHON)" -m venv --clear .venv; }
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@
