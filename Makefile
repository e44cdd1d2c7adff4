# Two commands need nothing but python3, make and a package index:
#   make demo   set up, then run the main job
#   make test   set up, then the whole test suite
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-faults lint docs bench clean

help:
	@echo "make demo   set up and run the main job"
	@echo "make test   set up and run every check and test"
	@echo "make test-faults  the long form of the fault tests"
	@echo "make docs   build the documentation, warnings are errors"
	@echo "make bench  measure the speed of the exact solver"
	@echo "make setup  set up only: leaves $(BIN)/mirrorax"
	@echo "make clean  remove what was set up and built"

setup: $(STAMP)

# Installed again only when what it depends on has changed.
$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV): a minute or two; pip prints nothing while it installs"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable ".[dev]"
	@touch $@
	@echo "ready: source $(BIN)/activate, then mirrorax doctor"

# A small study from end to end, about 3 minutes on 2 cores. A second time it reuses its results.
demo: setup
	@mkdir -p demo
	$(BIN)/mirrorax solve --mdp deepsea --size 8 --potential entropy --drift kl \
		--alpha 0.01 --lam 0.1 --iterations 50 --plot demo/convergence.png
	$(BIN)/mirrorax sweep run examples/demo.toml --store demo/store
	$(BIN)/mirrorax report demo/store --out demo/report.html --figures demo/figures
	@echo
	@echo "A demonstration with two environments and two seeds, not a result. Open in a browser:"
	@echo "  demo/report.html            the finding, the maps of both pairs, every cell"
	@echo "and look at"
	@echo "  demo/figures/               the same as pictures and tables"
	@echo "  demo/convergence.png        exact Policy Mirror Descent converging"

test: setup lint
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 15 --durations-min 5

# The long forms: many more kills, flips, full disks, malformed inputs and random convex functions.
test-faults: setup
	MIRRORAX_FAULTS=long $(BIN)/python -m pytest tests/faults tests/store \
		tests/tabular/test_own_functions.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: setup
	$(BIN)/python docs/pictures.py
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: setup
	$(BIN)/python benchmarks/exact.py

clean:
	rm -rf $(VENV) demo docs/_build
