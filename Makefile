# Sets up its own environment in .venv from nothing but Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint bench screenshots translations clean

demo: $(READY)  ## open the console on embedded simulated clusters
	@$(BIN)/gpudeck demo

test: $(READY)  ## style, types, layers, tests; real Slurm too, as root where its packages are installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest

bench: $(READY)  ## ratios of speed, measured in one run
	$(BIN)/python tests/benchmarks/run.py

screenshots: $(READY)  ## redraw screenshots/ from the demo
	$(BIN)/python screenshots/make.py

lint: $(READY)
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "gpudeck needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
		|| { echo "this Python can't make environments; on Debian: apt install python3-venv"; exit 1; }
	@$(BIN)/pip install --quiet --upgrade pip
	@$(BIN)/pip install --quiet --constraint constraints.txt --editable . --group dev
	@touch $(READY)

translations: $(READY)  ## refresh the catalogues from the sources; then fill in what is new
	$(BIN)/pybabel -q extract --keyword=_ --keyword=plural:1,2 --no-location --sort-output --project=gpudeck \
		--output-file=console/locale/gpudeck.pot console connectors
	$(BIN)/pybabel -q update --input-file=console/locale/gpudeck.pot --output-dir=console/locale --domain=gpudeck \
		--no-fuzzy-matching --ignore-pot-creation-date
	$(BIN)/pybabel -q compile --directory=console/locale --domain=gpudeck

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
