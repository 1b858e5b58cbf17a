# `make demo` and `make test` do all the set-up themselves. Needs Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
TIMED = start=$$(date +%s); trap 'echo "== $@: $$(( $$(date +%s) - start )) s"' EXIT;

.PHONY: setup demo test lint clean
setup: $(VENV)/.stamp

$(VENV)/.stamp: pyproject.toml constraints.txt hatch_build.py $(wildcard frontend/*.json frontend/src/*)
	@$(TIMED) set -e; \
	echo "== setup: a virtual environment in $(VENV) and the package in it (about a minute, once)"; \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "aspirate needs Python 3.11 or newer; this is %d.%d. Try: make PYTHON=python3.11" % sys.version_info[:2])'; \
	$(PYTHON) -m venv $(VENV); \
	$(BIN)/pip install --quiet --editable '.[dev]'; \
	touch $@

demo: setup
	@$(TIMED) echo "== demo: synthetic slides, both stages trained, slides held out predicted (about four minutes)"; \
	$(BIN)/aspirate demo && echo "look closer in a browser: $(BIN)/aspirate serve demo"

test: setup
	@$(TIMED) echo "== test: the whole suite on $$(nproc) cores (a few minutes)"; \
	$(BIN)/pytest --numprocesses auto --quiet

lint: setup
	@$(TIMED) set -e; echo "== lint: ruff and mypy --strict"; \
	$(BIN)/ruff check .; $(BIN)/ruff format --check .; $(BIN)/mypy; \
	if command -v npm >/dev/null; then npm --prefix frontend ci --silent --ignore-scripts; npm --prefix frontend run --silent check; fi

clean:
	rm -rf $(VENV) demo .mypy_cache .ruff_cache .pytest_cache frontend/node_modules src/aspirate/viewer/static
