# make quickstart   install what it needs, then measure, train, choose, bundle and report on this CPU in two minutes
# make test         install all devices and the test tools, then everything that must hold: lint, format, types, tests
# make docs         the documents as a site, in build/site; nothing is fetched
# make wheel        build the wheel, install it into a new environment and run every command of the README there
# PYTHON=python3.12 make quickstart   to use another interpreter (3.11 or newer)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two installations into one environment: what measuring and training need, and all that tests need besides.
TRAINING := $(VENV)/.training
INSTALLED := $(VENV)/.installed
# With the sources of the C engine, which installing builds where there is a compiler.
REQUIREMENTS := setup.cfg setup.py pyproject.toml constraints.txt $(wildcard medn/program/*.[ch])
PIP_INSTALL := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check -c constraints.txt
TYPES := build/types
# Processes that run tests at the same time.
WORKERS ?= 2
# The folders that belong inside medn, as package_dir in setup.cfg maps them.
MAPPED := $(shell sed -n 's/^    medn\.[a-z_]* = \([a-z_]*\)$$/\1/p' setup.cfg)

.DEFAULT_GOAL := quickstart
.PHONY: quickstart test install lint types pytest docs wheel format clean

quickstart: $(TRAINING)
	$(BIN)/medn quickstart
	@echo "medn lies in $(BIN); to call it by its name: source $(BIN)/activate"

test: lint types pytest

install: $(INSTALLED)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("medn needs Python 3.11 or newer: PYTHON=python3.11 make" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)

$(TRAINING): $(REQUIREMENTS) | $(BIN)/python
	@echo "installing what measuring and training need into $(VENV), this takes a minute or two the first time"
	@$(PIP_INSTALL) -e '.[train]'
	@touch $@

$(INSTALLED): $(REQUIREMENTS) | $(BIN)/python
	@echo "installing all devices and the test tools into $(VENV), this takes a few minutes the first time"
	@$(PIP_INSTALL) -e '.[all,test]'
	@$(BIN)/python medn/model/torchvision_operators.py
	@touch $(TRAINING) $@

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# A type checker does not follow package_dir: links put the folders where they are imported from.
types: $(INSTALLED)
	@rm -rf $(TYPES) && mkdir -p $(TYPES)/medn
	@ln -s $(CURDIR)/medn/* $(addprefix $(CURDIR)/,$(MAPPED)) $(TYPES)/medn/
	cd $(TYPES) && $(CURDIR)/$(BIN)/mypy --config-file $(CURDIR)/pyproject.toml --cache-dir $(CURDIR)/.mypy_cache -p medn

# What measures needs the machine for itself, so it runs after all else, in one process.
pytest: $(INSTALLED)
	$(BIN)/pytest -m "not serial" -n $(WORKERS) --dist loadfile
	$(BIN)/pytest -m serial

docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=$(CURDIR) $(BIN)/mkdocs build --strict --quiet
	@echo "the site is build/site/index.html"

wheel: $(INSTALLED)
	$(BIN)/python -m experiments.installed_wheel

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
