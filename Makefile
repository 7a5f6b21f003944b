# Every target sets up .venv by itself; only Python 3.11 or newer is needed.

PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$python && break; done)
UV ?= uv
COMPILE := $(UV) pip compile pyproject.toml --group build --universal --python-version 3.11 \
	--generate-hashes --custom-compile-command "make lock"
BIN := .venv/bin
# What an installed lock leaves; who has the whole needs no other for the demo.
ALL := .venv/.installed
DEMO := $(if $(wildcard $(ALL)),$(ALL),.venv/.installed-demo)
# JAX uses several threads in each process, so more workers than this only get in each other's way.
# A file's tests share programs that take long to compile, so that one worker runs all of them.
PYTEST := $(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile -rs

# Its theme would print a notice about a coming version of MkDocs.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format docs docs-serve lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(DEMO) ## Watch Adam lose plasticity and reset methods keep it: three minutes, report in demo/
	$(BIN)/python examples/plasticity_demo.py

test: lint ## Lint, then run the tests
	$(PYTEST)

test-all: lint ## Lint, then run every test, the slow ones too, with more random examples
	HYPOTHESIS_PROFILE=thorough $(PYTEST) -m ""

lint: $(ALL) ## Check style, types and who imports whom
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright
	$(BIN)/lint-imports

format: $(ALL) ## Apply the style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(ALL) ## Build the documentation into site/, to be opened in a browser
	$(MKDOCS) build --strict

docs-serve: $(ALL) ## Show the documentation on this machine, built anew at every change
	$(MKDOCS) serve

lock: ## Write the locks anew from pyproject.toml (needs uv); keeps the pins that still fit
	$(COMPILE) --extra dev --output-file requirements.lock
	$(COMPILE) --extra demo --constraint requirements.lock --output-file requirements-demo.lock

clean: ## Remove everything the other targets made, .venv too
	rm -rf .venv demo dist site .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A lock names every package, so nothing is left to resolve: an old pip would resolve some names anew,
# to versions that the lock does not hold. `pip check` shows whether the lock was complete.
# The stamp comes last, so that an interrupted installation is taken up again.
# A .venv that is already there is kept when its pip works.
define INSTALL
@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
	test -n "$(PYTHON)" || { \
		echo "Python 3.11 or newer was not found; name one with: make PYTHON=/path/to/python" >&2; \
		exit 1; }; \
	"$(PYTHON)" -m venv --clear .venv; }
$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r $<
$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
@$(BIN)/python -m pip check || { \
	echo "The packages in .venv do not fit together. If .venv is old: make clean, then try again." >&2; \
	echo "If it is new, $< is incomplete: make lock" >&2; \
	exit 1; }
@touch $@
endef

$(ALL): requirements.lock pyproject.toml
	$(INSTALL)

.venv/.installed-demo: requirements-demo.lock pyproject.toml
	$(INSTALL)
