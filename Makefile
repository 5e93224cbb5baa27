# Every chore is one word. `make help` lists them.

PYTHON ?= python3
VENV   ?= .venv
OUT    ?= out
EXTRAS := dev,molecules,pandas,pyg,peers

BIN   := $(VENV)/bin
STAMP := $(VENV)/.up-to-date

# One thread for the linear algebra: two-thread torch collapses on a busy two-core machine. Numba keeps two,
# so that the tests can compare what its kernels give with one thread and with two.
export OMP_NUM_THREADS ?= 1
export NUMBA_NUM_THREADS ?= 2

# The documentation's theme would advertise its successor at every build.
export NO_MKDOCS_2_WARNING := 1

# One constraints file for everything that is installed, the build backend included. pip before 25.3 reads
# PIP_CONSTRAINT when it builds, later ones PIP_BUILD_CONSTRAINT; each ignores the other name.
env $(STAMP): export PIP_CONSTRAINT := constraints.txt
env $(STAMP): export PIP_BUILD_CONSTRAINT := constraints.txt
env $(STAMP): export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help env run test check style types pages format bench docs clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

env: $(STAMP) ## create .venv with the package and its development tools

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

# These settings were chosen on validation parts of molecules 0 to 19,999 of the sample. The run therefore takes the
# next 20,000: no molecule that it trains or tests on had a part in the choice.
DATA := -n 20000 --seed 0 --start 20000
MODEL := --model loopy_bp --ensemble 1 --dim 64 --rounds 6 -p activation=silu -p node_width=128 -p loss=absolute -p monitor=mae \
	--epochs 35 --batch-size 64 --learning-rate 0.003

run: env ## generate molecules, draw them, train on them, compare with baselines, write out/report.html
	@mkdir -p $(OUT)
	$(BIN)/hiddenfield generate huckel $(DATA) --smiles --out $(OUT)/huckel.parquet
	$(BIN)/hiddenfield describe $(OUT)/huckel.parquet --plot $(OUT)/huckel.png
	@rm -rf $(OUT)/run
	$(BIN)/hiddenfield fit $(OUT)/huckel.parquet --target pce --out $(OUT)/run --report $(MODEL)
	@cp $(OUT)/run/report.html $(OUT)/report.html
	@echo "Open $(OUT)/report.html in a browser."

test: env ## run the tests and every example in the docstrings, README and docs
	$(BIN)/python -m pytest -q $(WORKERS)
	$(PLAIN_CPU) $(BIN)/python -m pytest -q $(WORKERS) $(NUMERIC)

# Each worker takes one half of the tests in their order, so that what a module prepares is prepared once, and who is done
# first takes from the other.
WORKERS := -n 2 --dist worksteal

# The tests whose numbers depend on rounding once more, as on a processor of another kind: no vector instructions beyond
# the oldest, for Numba and torch. No result may hang on the last bit.
PLAIN_CPU := NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES= ATEN_CPU_CAPABILITY=default
NUMERIC := tests/inference/test_precision.py tests/inference/test_double_loop.py tests/inference/messages/test_pairs.py \
	tests/ops/test_sums.py

check: style types pages ## formatting, lint, docstrings, types, imports-go-left, documentation (-j 2: side by side)

types: env
	$(BIN)/mypy

style: env
	$(BIN)/ruff format --check --output-format concise .
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -q tests/test_architecture.py

pages: env
	$(BIN)/mkdocs build --strict --quiet

format: env ## rewrite the code in the house format, and the generated tables and drawing of the documentation
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .
	$(BIN)/python -m tools.tables
	$(BIN)/python -m tools.drawing

bench: env ## run the benchmarks
	$(BIN)/python -m benchmarks

docs: env ## build the documentation into site/
	$(BIN)/mkdocs build --strict

clean: ## remove everything that the other targets made
	rm -rf $(VENV) $(OUT) site dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
