# make quickstart   install, then measure, train, choose, bundle and report on this CPU in two minutes
# make test         everything that must hold: lint, format, types, tests
# PYTHON=python3.12 make quickstart   to use another interpreter (3.11 or newer)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TYPES := build/types
# Processes that run tests at the same time.
WORKERS ?= 2
# The folders that belong inside medn, as package_dir in setup.cfg maps them.
MAPPED := $(shell sed -n 's/^    medn\.[a-z_]* = \([a-z_]*\)$$/\1/p' setup.cfg)

.DEFAULT_GOAL := quickstart
.PHONY: quickstart test install lint types pytest format clean

quickstart: $(INSTALLED)
	$(BIN)/medn quickstart
	@echo "medn lies in $(BIN); to call it by its name: source $(BIN)/activate"

test: lint types pytest

install: $(INSTALLED)

$(INSTALLED): setup.cfg pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("medn needs Python 3.11 or newer: PYTHON=python3.11 make" if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV), this takes a few minutes the first time"
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check -c constraints.txt -e '.[all,test]'
	@$(BIN)/python medn/model/torchvision_operators.py
	@touch $@

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

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
