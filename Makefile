# `make demo` and `make test` need Python 3.11 or newer, pip and make; they do the rest.

PYTHON  ?= python3
VENV    ?= .venv
WORKERS ?= 2
CASES   ?= 200000

RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip --disable-pip-version-check

# One stamp for each set of packages. They depend on pyproject.toml alone: the installation is editable, so a change
# of the sources needs no new one.
CLI   := $(VENV)/.installed-cli
TEST  := $(VENV)/.installed-test
DEV   := $(VENV)/.installed-dev
BENCH := $(VENV)/.installed-bench

.DEFAULT_GOAL := help
.PHONY: help demo test test-jit test-nojit slow fuzz lint types format bench dist clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' Makefile

demo: $(CLI) ## install, then train, evaluate and explain a model on built-in data, and write a report
	$(VENV)/bin/stagewise demo

test: test-jit test-nojit ## install, then run the whole suite

test-jit: $(TEST) ## the suite, compiled
	$(RUN) -m pytest -n $(WORKERS)

test-nojit: $(TEST) ## the small cases again, as plain Python
	NUMBA_DISABLE_JIT=1 $(RUN) -m pytest -n $(WORKERS) -m "nojit and not slow"

# pytest ends with 5 when nothing is marked slow; that is no failure.
slow: $(TEST) ## soak tests and large data
	$(RUN) -m pytest -m slow || [ $$? -eq 5 ]

fuzz: $(TEST) ## 200,000 damaged model files: none may crash, hang or be believed
	$(RUN) tests/fuzz/fuzzer.py --cases $(CASES)

lint: $(DEV) ## ruff: rules and format
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

format: $(DEV) ## let ruff put things right
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

types: $(DEV) ## mypy, strict
	$(RUN) -m mypy

bench: $(BENCH) ## side by side with other libraries
	$(RUN) -m benchmarks

dist: $(DEV) ## wheel and source archive, into dist/
	$(RUN) -m build

clean: ## remove everything that was made here, the environment too
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# bin/pip rather than bin/python: an environment whose creation was cut short is finished, not trusted. The second form
# serves systems that ship Python without ensurepip.
$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "stagewise needs Python 3.11 or newer, and $(PYTHON) is %d.%d: name another one, as in make PYTHON=python3.12" % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV) || { $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(RUN) install pip; }

$(VENV)/.installed-%: pyproject.toml $(VENV)/bin/pip
	$(PIP) install --quiet --editable '.[$*]'
	@touch $@
