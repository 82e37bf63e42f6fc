# make install   everything into .venv/ (skipped while nothing has changed)
# make run       the platform, and one training job from end to end; Ctrl-C stops it
#                ONCE=1 stops by itself; EXAMPLE=digits-tensorflow, LEARNERS=2, TENANT=speech choose another job
# make check     lint, types, import walls, unit tests (under two minutes)
# make test      check, and everything that starts real services
# make up, down, status      the platform alone
# make clean     remove .venv/ and caches; the platform's data in .ffdl/ stays

SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3.11)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest -q

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install run check test up down status clean

help:
	@sed -n '/^$$/q; s/^# \{0,1\}//p' Makefile

# What is installed is known by a digest: of what is wanted, and of where (an environment can't be moved).
install:
	@set -euo pipefail; \
	wanted=$$({ cat requirements.txt requirements.lock pyproject.toml; pwd; } | sha256sum | cut -c1-32); \
	if [ "$$(cat $(STAMP) 2>/dev/null)" = "$$wanted" ] && $(BIN)/python -c '' 2>/dev/null; then exit 0; fi; \
	"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null || \
		{ echo "Python 3.11 is needed; '$(PYTHON)' is not it. Use: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }; \
	echo "Installing into $(VENV)/ (about 9 GB; some minutes) ..."; \
	rm -f $(STAMP); \
	$(BIN)/python -m pip --version >/dev/null 2>&1 || { rm -rf $(VENV); "$(PYTHON)" -m venv $(VENV); }; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt -c requirements.lock; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .; \
	echo "$$wanted" > $(STAMP); \
	echo "Installed."

run: install
	@exec $(BIN)/ffdl run $(if $(filter-out 0 no false,$(ONCE)),--once) $(if $(EXAMPLE),--example '$(EXAMPLE)') \
		$(if $(LEARNERS),--learners '$(LEARNERS)') $(if $(TENANT),--tenant '$(TENANT)')

check: install
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(PYTEST) tests/unit

test: check
	$(PYTEST) tests --ignore tests/unit

up: install
	@exec $(BIN)/ffdl up

down: install
	@exec $(BIN)/ffdl down

status: install
	@exec $(BIN)/ffdl status

clean:
	rm -rf $(VENV) *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.ffdl/*' -prune -exec rm -rf {} +
