# Everything a person or CI does with this repository. `make run` and `make test` install what is needed first.

VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-$(shell cat requirements.txt requirements.lock pyproject.toml | sha256sum | cut -c1-16)

ONCE ?=
EXAMPLE ?= digits-pytorch
LEARNERS ?= 1
TENANT ?= vision

.PHONY: install run up down status check unit test clean

install: $(STAMP)

$(STAMP):
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -r requirements.txt -c requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps -e .
	rm -f $(VENV)/.installed-*
	touch $@

run: install
	$(BIN)/ffdl run $(if $(ONCE),--once) --example $(EXAMPLE) --learners $(LEARNERS) --tenant $(TENANT)

up down status: install
	$(BIN)/ffdl $@

check: install
	$(BIN)/ruff check .
	$(BIN)/mypy ffdl_ops
	$(BIN)/lint-imports
	$(BIN)/pytest -q -m "not slow and not conformance and not browser" tests/unit

test: check
	$(BIN)/pytest -q tests --ignore tests/unit

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache
