# Every target sets up its own environment in .venv; nothing is installed outside it.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
READY := .venv/.ready
RUNS := .venv/.runs
LOWEST := .venv-lowest
PIP := -m pip --quiet --disable-pip-version-check install
# Two workers on two cores: linear algebra with threads of its own takes several times as long beside them.
test test-slow test-lowest: export OPENBLAS_NUM_THREADS := 1
test test-slow test-lowest: export OMP_NUM_THREADS := 1

.PHONY: demo test test-slow test-lowest coverage lint format docs wheel bench paper clean

demo: $(RUNS)
	$(BIN)/combopeps solve town --delta 0.01 --plot demo.png

test: $(READY)
	$(BIN)/python -m pytest -n 2 -q

test-slow: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadgroup -q -m slow

# The suite with exactly the lowest versions that pyproject.toml allows; wheels of these exist for Python 3.11. Old
# packages use what newer ones have deprecated: that is no fault of ours, and no error here.
test-lowest: $(LOWEST)/.ready
	$(LOWEST)/bin/python -m pytest -n 2 -q -W default::DeprecationWarning

# Branch coverage of the fast suite, with the floor of pyproject.toml.
coverage: $(READY)
	$(BIN)/python -m pytest -n 2 -q --cov --cov-report=term:skip-covered

# Wheel and sdist in dist/, their metadata, and the tests of the installed wheel in an environment of its own.
wheel: $(READY)
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python .ci/installed.py dist

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(READY)
	$(BIN)/python docs/_ext/links.py
	$(BIN)/python -m sphinx -W --keep-going -n -q docs docs/_build/html
	@echo "open docs/_build/html/index.html"

bench: $(READY)
	$(BIN)/python -m benchmarks.oracles
	$(BIN)/python -m benchmarks.samplers
	$(BIN)/python -m benchmarks.sums
	$(BIN)/python -m benchmarks.policies
	$(BIN)/python -m benchmarks.campaign
	$(BIN)/python -m benchmarks.stopping
	$(BIN)/python -m benchmarks.noise
	$(BIN)/python -m benchmarks.prior
	$(BIN)/python -m benchmarks.epsilon
	$(BIN)/python -m benchmarks.costs
	$(BIN)/python -m benchmarks.plan
	$(BIN)/python -m benchmarks.tutorial
	$(BIN)/python -m benchmarks.pictures
	$(BIN)/python -m benchmarks.huge

paper: $(READY)
	$(BIN)/python -m benchmarks.paper --runs 500

# What `make demo` needs; the other targets add the tools of a developer.
$(RUNS): pyproject.toml
	@test -n "$(PYTHON)" || { echo "combopeps needs Python 3.11 or newer: install it, or run make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) -e '.[plot]'
	touch $@

$(READY): $(RUNS)
	$(BIN)/python $(PIP) --upgrade 'pip>=25.1'
	$(BIN)/python $(PIP) -e '.[all]' --group dev
	touch $@

$(LOWEST)/.ready: pyproject.toml .ci/lowest.py
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python .ci/lowest.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python $(PIP) --upgrade 'pip>=25.1'
	$(LOWEST)/bin/python $(PIP) -c $(LOWEST)/constraints.txt -e '.[all]' --group test
	touch $@

clean:
	rm -rf docs/_build dist .venv $(LOWEST) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
