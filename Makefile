# Everything runs in .venv, which the first target makes. Needs Python >= 3.10 with venv, gcc or g++, make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# DeepSpeed must not build its CUDA ops while it is being installed: it builds those that a run needs.
export DS_BUILD_OPS := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# run the tools of the venv (ninja, g++ wrappers) first, as an activated shell would
export PATH := $(abspath $(BIN)):$(PATH)

# test ends with pytest's closing line, also under make -j
.NOTPARALLEL:
.PHONY: help train test unit lint format types docs deepspeed-keys golden install clean

help:
	@echo "make train [ARGS='parallelism=zero2 train.steps=50']   train the default job"
	@echo "make test                 ruff, mypy and all tests"
	@echo "make unit [ARGS='...']    pytest alone; ARGS='-n 0' in one process, for --pdb"
	@echo "make lint | format | types | docs | deepspeed-keys | golden | install | clean"

train: $(STAMP)
	$(BIN)/python train.py $(ARGS)

test: lint types unit

# two workers; tests/conftest.py says how they share the tests
unit: $(STAMP)
	$(BIN)/python -m pytest -n 2 $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP)
	$(BIN)/mypy

# generated reference pages
docs: $(STAMP)
	$(BIN)/python docs/generate.py

# the table of DeepSpeed's keys, read from the installed release
deepspeed-keys: $(STAMP)
	$(BIN)/python -m zerocfg.deepspeed.introspect --write

# rewrite the golden outputs; read the diff before committing it
golden: $(STAMP)
	$(BIN)/python -m pytest tests/golden --update-golden

install: $(STAMP)

# The stamp is touched last: an interrupted install is taken up again, a finished one is never repeated.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("zerocfg needs Python 3.10 or newer, this is " + sys.version.split()[0] + "; try: make PYTHON=python3.12" if sys.version_info < (3, 10) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
