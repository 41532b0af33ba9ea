# `make help` lists the targets. Everything is installed into .venv, at first use.

SHELL := /bin/sh
BIN := .venv/bin
# Dozens of processes import einmap in the tests: where Python keeps nothing, each of them compiles all of it anew.
export PYTHONDONTWRITEBYTECODE :=
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
# Each process begins with one part of the tests, so that two seldom make the same fixtures, and steals from the others.
# Three of them, as some tests wait for processes of their own.
PYTEST := $(BIN)/pytest -n 3 --dist worksteal

# Parts of the slow tests: pytest markers, described in pyproject.toml.
PARTS := simulator mapper fusion distribute emit sweep hostile peer
ifneq ($(filter-out $(PARTS),$(PART)),)
$(error PART=$(PART) is no part of the slow tests; the parts are: $(PARTS))
endif

# Tried in this order; the first that runs, is new enough and can make a venv is taken.
PYTHONS := $(PYTHON) python3.14 python3.13 python3.12 python3 python
IS_USABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))

.PHONY: help demo test test-all check kernels bench reference docs dist clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | while IFS='|' read -r name what; do \
		printf '  make %-9s %s\n' "$$name" "$$what"; done
	@echo '  parts of test-all: PART=simulator (10,000 random mappings executed and compared with the model),'
	@echo '                     PART=mapper (the search against brute force on random problems),'
	@echo '                     PART=fusion (fused mappings against brute force on random cascades),'
	@echo '                     PART=distribute (random plans on both engines against prediction and whole results),'
	@echo '                     PART=emit (emitted code of 200 random mappings, compiled and run),'
	@echo '                     PART=sweep (sweeps, Dask workers and schedulers that are killed at random moments),'
	@echo '                     PART=hostile (100,000 inputs changed at random, each within its limits of time and memory),'
	@echo '                     PART=peer (the examples that AccelForge installs, where EINMAP_ACCELFORGE_EXAMPLES names them)'
	@echo '  another Python (>= 3.12) for a new .venv: make PYTHON=... test'

demo: .venv/.core ## map GPT-3 6.7B onto TPU v4i; installs what einmap needs to run, no more
	$(BIN)/einmap warmup
	$(BIN)/einmap map tpu_v4i gpt3_6.7b

test: .venv/.dev ## all checks and the fast tests
	@$(MAKE) --no-print-directory -j 2 check kernels
	$(PYTEST)

test-all: .venv/.dev ## all checks and all tests; with PART=name only that part of the slow tests
ifdef PART
	$(PYTEST) --hypothesis-profile thorough -m "slow and $(PART)"
else
	@$(MAKE) --no-print-directory check
	$(PYTEST) --hypothesis-profile thorough -m "slow or not slow"
endif

check: .venv/.dev ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# On the other core while the types are checked, what each process of the tests would do again: Numba compiles, and in
# a new checkout pytest rewrites the asserts of all tests.
kernels: .venv/.dev
	@$(BIN)/einmap warmup >/dev/null
	@[ -d tests/__pycache__ ] || $(BIN)/pytest -qq --collect-only >/dev/null 2>&1 || true

bench: .venv/.dev ## run the benchmarks (ONLY="startup ...": some) and write docs/performance.md
	$(BIN)/python benchmarks/run.py $(ONLY)

reference: .venv/.dev ## write docs/reference from the input models
	$(BIN)/python -m docs.generate.reference

docs: .venv/.docs ## build the documentation site into build/site
	$(BIN)/python docs/site/build.py build/site
	@echo 'open build/site/index.html'

dist: .venv/.made ## build wheel and sdist into dist/, and say whether HEAD has the tag of the version
	@$(INSTALL) build
	$(BIN)/python -m build --outdir dist .
	@version=v$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml); \
	git tag --points-at HEAD | grep -qx "$$version" || echo "this is not the release $$version: HEAD does not have that tag"

clean: ## remove .venv, caches and builds
	rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.core: .venv/.made pyproject.toml constraints.txt
	@echo 'installing einmap into .venv ...'
	@$(INSTALL) -e .
	@touch $@

.venv/.dev: .venv/.made pyproject.toml constraints.txt
	@echo 'installing einmap and its development tools into .venv ...'
	@$(INSTALL) -e '.[dev]'
	@touch .venv/.core .venv/.docs $@

.venv/.docs: .venv/.made pyproject.toml constraints.txt
	@echo 'installing einmap and Sphinx into .venv ...'
	@$(INSTALL) -e '.[docs]'
	@touch .venv/.core $@

# Candidates are run, not only looked up: pyenv puts names on the PATH that fail when they are called.
.venv/.made:
	@rm -rf .venv; \
	for python in $(PYTHONS) "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python3; do \
		"$$python" -c '$(IS_USABLE)' </dev/null >/dev/null 2>&1 || continue; \
		echo "making .venv with $$("$$python" --version)"; \
		"$$python" -m venv .venv && touch $@ && exit 0; \
		rm -rf .venv; \
	done; \
	if uv --version >/dev/null 2>&1; then \
		echo 'making .venv with Python 3.12 from uv'; \
		uv venv --quiet --seed --python 3.12 .venv && touch $@ && exit 0; \
		rm -rf .venv; \
	fi; \
	echo 'einmap needs Python 3.12 or newer, with its venv module, and none was found. To get one, either'; \
	echo '  - install uv (https://docs.astral.sh/uv) and run make again: it fetches Python 3.12; or'; \
	echo '  - install the package of your distribution, e.g. apt install python3.12 python3.12-venv; or'; \
	echo '  - install Python from https://www.python.org/downloads; then,'; \
	echo '    if it is not on the PATH: make PYTHON=/where/it/is/python3.12'; \
	exit 1
