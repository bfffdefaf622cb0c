# Every command here sets up what it needs first: a virtual environment with the versions in requirements.lock.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help setup reproduce test test-pages test-policy test-slow mutation fuzz check release format docs coverage bench bench-gpu evidence lock clean

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

setup: $(READY)  ## virtual environment and install

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

reproduce: setup  ## the paper's experiments: figures, results and a table under results/
	$(BIN)/heavytail reproduce

test: setup  ## the tests, doctests and documented examples
	$(BIN)/pytest -n 2 --dist loadgroup -m "not slow and not pages"

test-pages: setup  ## the site, the service's page, the playground and the report, in a browser
	$(BIN)/pytest -n 2 --dist loadfile -m "pages and not slow"

test-policy: setup  ## what meets one policy: NAME=TwinUCB
	$(BIN)/pytest -n 2 -m "not slow and not pages" tests/policies tests/checks tests/unbreakable tests/simulation tests/commands tests/fuzz/test_fuzz_machines.py -k "$(NAME) or $$($(BIN)/python -c 'import heavytail.policies as p; print(p.$(NAME).name)')"

test-slow: setup  ## the tests that take minutes
	$(BIN)/pytest -m slow

mutation: setup  ## mutants of the formulas against the tests; SAMPLE=200 of each part unless told
	$(BIN)/python -m tests.mutation --sample $(or $(SAMPLE),200)

check: setup  ## formatting, lint, types in strict mode, import order
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

release: setup  ## build wheel and sdist into dist/, and try both
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/python -m tests.release dist

format: setup  ## let ruff rewrite the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup  ## build the documentation in strict mode, into site/
	$(BIN)/mkdocs build --strict

coverage: setup  ## coverage with the compiler off, so that kernels count
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest -n 2 -m "not slow and not compiled and not pages" --cov --cov-report=term:skip-covered

fuzz: setup  ## a million calls, interleavings, 10^5 runs of extreme numbers, 10^5 files, ten minutes of threads
	$(BIN)/python -m tests.fuzz --calls 1000000 --machines 60 --extremes 100000 --files 100000 --threads 600

bench-gpu: setup  ## the GPU engine: time of 10^6 trials, and the CPU's regret beside it
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[cuda]'
	$(BIN)/python -m benchmarks.gpu

bench: setup .bench/.ready  ## a round of heavytail, NumPy and the peers, as ratios; growth, threads, cold start; writes the page
	$(BIN)/python -m benchmarks --page docs/evidence/benchmarks.md

evidence: setup .bench/.ready  ## every recorded number anew, hours in all; ONLY="tails links" makes parts
	$(BIN)/python -m benchmarks.evidence $(if $(ONLY),--only $(ONLY))

# Each peer alone: where one cannot be installed the table says so.
.bench/.ready:
	$(PYTHON) -m venv .bench
	-.bench/bin/pip install --quiet --disable-pip-version-check vowpalwabbit
	-.bench/bin/pip install --quiet --disable-pip-version-check river
	-.bench/bin/pip install --quiet --disable-pip-version-check contextualbandits
	-.bench/bin/pip install --quiet --disable-pip-version-check mabwiser
	-.bench/bin/pip install --quiet --disable-pip-version-check mypy-extensions pyyaml seaborn tqdm typing-extensions
	-.bench/bin/pip install --quiet --disable-pip-version-check --no-deps obp
	@touch $@

lock: setup  ## resolve the versions in pyproject.toml anew
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --extra experiments --extra learn --extra mdp --extra dask --extra serve --extra postgres --extra otel --extra archive --group dev \
	  --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-annotate --no-header --no-emit-index-url \
	  --quiet --output-file requirements.lock

clean:  ## remove what was made
	rm -rf $(VENV) site results dist build
