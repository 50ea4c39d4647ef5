# Sets up its own environment in .venv from nothing but Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORDS := console/locale/gpudeck.pot
# Lines of a template's header that change with each run, or that nobody has filled in.
UNSTABLE := ^"(Report-Msgid-Bugs-To|POT-Creation-Date|PO-Revision-Date|Last-Translator|Language-Team|Generated-By):

.PHONY: demo test lint bench screenshots translations clean

demo: $(READY)  ## open the console on embedded simulated clusters
	@$(BIN)/gpudeck demo

# No cache: it does not notice that a module has moved, so that imports stand in the wrong group.
test: $(READY)  ## style, types, layers, tests; real Slurm too, as root where its packages are installed
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest

bench: $(READY)  ## ratios of speed, measured in one run
	$(BIN)/python tests/benchmarks/run.py

screenshots: $(READY)  ## redraw screenshots/ from the demo
	$(BIN)/python screenshots/make.py

lint: $(READY)
	$(BIN)/ruff check --no-cache . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "gpudeck needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
		|| { echo "this Python can't make environments; on Debian: apt install python3-venv"; exit 1; }
	@$(BIN)/pip install --quiet --upgrade pip
	@$(BIN)/pip install --quiet --constraint constraints.txt --editable . --group dev
	@touch $(READY)

translations: $(READY)  ## refresh the catalogues from the sources; then fill in what is new
	PYTHONPATH=tests $(BIN)/pybabel -q extract --mapping-file=tests/babel.cfg --no-default-keywords --keyword=_ \
		--keyword=N_ --keyword=plural:1,2 --no-location --no-wrap --sort-output --project=gpudeck \
		--header-comment='# The words of gpudeck: made by make translations, not by hand.' \
		--output-file=$(WORDS).new console connectors
	grep -Ev '$(UNSTABLE)' $(WORDS).new > $(WORDS) && rm $(WORDS).new
	$(BIN)/pybabel -q update --input-file=$(WORDS) --output-dir=console/locale --domain=gpudeck --locale=zh_CN \
		--init-missing --no-wrap --no-fuzzy-matching --ignore-obsolete --ignore-pot-creation-date
	$(BIN)/pybabel -q compile --directory=console/locale --domain=gpudeck --statistics

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
