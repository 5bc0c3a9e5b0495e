# make demo, make test, make lint: each makes its own virtual environment first, or brings it up to date.
#   PYTHON=python3.12 make test     another interpreter for a new environment (3.11 or newer)
#   make test-rest                  the tests that make test leaves out for time; make test-all runs both
#   make test ARGS="-k kafka -x"    arguments for pytest; with ARGS=tests/daemon/lane all tests in there, and no others
#   make durations                  measures again how long each file takes, which shares the tests out over processors
#   make mutants NAME=commit.lua    plants faults and shows which quick tests find them; all take half an hour
#   make screenshots                takes the README's pictures of the running demo
#   make page-pictures              the page at a break and later, on a desktop, a phone and in the dark, in .pictures
#   make bench PART="end_to_end redis" SCALE=0.1    some parts of the benchmark, with fewer records; ARGS="--runs 3" gives medians of three runs
#   make chaos SEED=7 ROUNDS=20     faults on real servers; without SEED another one each time; MINUTES=5 ends it sooner
#   make fuzz TIMES=100             hostile records, so many times the examples of make test-rest
#   make soak HOURS=24              hours of event time in minutes: memory, keys, sockets stay flat
#   make same-bytes FILE=before.json           writes the hashes of what moves of code must leave equal; then compares with them
#   make trial SCENARIO="ranking redis-down"    which alerts come when something breaks; all scenarios take an hour

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTHON_FOLDERS := daemon deploy metrics tests
NEEDS_PYTHON = "import sys; sys.exit(sys.version_info < (3, 11))"

# Hundreds of processes that the tests start would each compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-rest test-all durations mutants same-bytes chaos fuzz soak bench-metrics bench-experiments bench-alerts bench-queries bench-touch lint format lock sbom dist clean dashboards rules tables doctor-examples query-examples chart-readme screenshots page-pictures bench bench-compare trial
.DELETE_ON_ERROR:

demo: .venv/.has-demo
	$(BIN)/relevanced demo $(ARGS)

test: .venv/.has-test
	$(BIN)/python -m tests $(ARGS)

test-rest: .venv/.has-test
	$(BIN)/python -m tests --rest $(ARGS)

test-all: .venv/.has-test
	$(BIN)/python -m tests --all $(ARGS)

durations: .venv/.has-test
	$(BIN)/python -m tests --all --renew-durations $(ARGS)

mutants: .venv/.has-test
	$(BIN)/python -m tests.mutants $(NAME)

chaos: .venv/.has-test
	$(BIN)/python -m tests.chaos $(if $(SEED),--seed $(SEED)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(MINUTES),--minutes $(MINUTES))

fuzz: .venv/.has-test
	RELEVANCED_FUZZ=$(or $(TIMES),100) $(BIN)/python -m pytest tests/fuzz $(ARGS)

soak: .venv/.has-test
	$(BIN)/python -m tests.soak $(if $(SEED),--seed $(SEED)) $(if $(HOURS),--hours $(HOURS))

same-bytes: .venv/.has-test
	$(BIN)/python -m tests.same_bytes $(if $(wildcard $(FILE)),check,write) $(FILE)

trial: .venv/.has-test
	$(BIN)/python -m tests.trial $(ARGS) $(SCENARIO)

screenshots: .venv/.has-test
	$(BIN)/python -m tests.page.screenshots

page-pictures: .venv/.has-test
	$(BIN)/python -m tests.page.looks .pictures

bench: .venv/.has-test
	$(BIN)/python -m tests.bench $(foreach part,$(PART),--part $(part)) $(if $(SCALE),--scale $(SCALE)) $(ARGS)

bench-compare: .venv/.has-test
	$(BIN)/python -m tests.bench.compare $(ARGS)

bench-metrics: .venv/.has-test
	$(BIN)/python tests/bench/metrics_speed.py $(ARGS)

bench-experiments: .venv/.has-test
	$(BIN)/python -m tests.bench.experiment_simulation $(ARGS)
	$(BIN)/python -m tests.bench.harvest_coverage

bench-alerts: .venv/.has-test
	$(BIN)/python -m tests.bench.alert_proof $(ARGS)
	$(BIN)/python -m tests.daemon.changes.looks
	$(BIN)/python -m tests.bench.repairs
	$(BIN)/python -m tests.bench.noticed
	$(BIN)/python -m tests.bench.site_drift
	$(BIN)/python -m tests.bench.first_week
	$(BIN)/python -m tests.bench.unjudged

bench-queries: .venv/.has-test
	$(BIN)/python -m tests.bench.query_losses $(ARGS)

bench-touch: .venv/.has-test
	$(BIN)/python -m tests.bench.last_touch $(ARGS)

lint: .venv/.has-lint .types
	$(BIN)/python -m flake8 $(PYTHON_FOLDERS)
	$(BIN)/python -m black --quiet --check --diff $(PYTHON_FOLDERS)
	$(BIN)/python -m mypy -p relevanced.daemon -p relevanced.metrics -p deploy

dashboards: .venv/.has-lint
	$(BIN)/python -m deploy.grafana

rules: .venv/.has-lint
	$(BIN)/python -m deploy.prometheus

tables: .venv/.has-lint
	$(BIN)/python -m deploy.tables

doctor-examples: .venv/.has-lint
	$(BIN)/python -m deploy.doctor_examples

query-examples: .venv/.has-lint
	$(BIN)/python -m deploy.query_examples

chart-readme: .venv/.has-lint
	$(BIN)/python -m deploy.kubernetes.readme

format: .venv/.has-lint
	$(BIN)/python -m black --quiet $(PYTHON_FOLDERS)

# One stamp per extra; it is older than the files that say what to install when these have changed. First what the extra
# needs, each file checked against its hash, then the project, for which nothing is left to fetch but what builds it.
.venv/.has-%: pyproject.toml .constraints.txt deploy/locked.py .venv/.made
	@$(BIN)/python deploy/locked.py requirements $* > .venv/locked-$*.txt
	$(PIP_INSTALL) --require-hashes --no-deps --requirement .venv/locked-$*.txt
	$(PIP_INSTALL) --editable '.[$*]'
	@touch $@

# An environment whose interpreter still works is kept, whoever made it.
.venv/.made:
	@$(PYTHON) -c $(NEEDS_PYTHON) || { \
	  echo "relevanced needs Python 3.11 or newer; $(PYTHON) is: $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another one: PYTHON=python3.12 make $(MAKECMDGOALS)" >&2; exit 1; }
	@$(BIN)/python -c $(NEEDS_PYTHON) 2>/dev/null || $(PYTHON) -m venv --clear .venv
	@touch $@

# The two packages as the type checker needs to see them: below a folder `relevanced`.
.types:
	@mkdir -p .types/relevanced
	@ln -sfn ../../daemon .types/relevanced/daemon
	@ln -sfn ../../metrics .types/relevanced/metrics

# Renews the pinned versions and their hashes from the newest that pyproject.toml allows; takes some minutes.
lock:
	rm -rf .venv-lock && $(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check pip-tools
	.venv-lock/bin/pip-compile --quiet --all-extras --generate-hashes --strip-extras --allow-unsafe \
	  --output-file .venv-lock/locked.txt pyproject.toml
	$(PYTHON) deploy/locked.py clean .venv-lock/locked.txt > .venv-lock/cleaned.txt
	mv .venv-lock/cleaned.txt .constraints.txt
	rm -rf .venv-lock
	$(PYTHON) -m deploy.sbom

sbom:
	$(PYTHON) -m deploy.sbom

# The source distribution of what is committed, and the wheel of that, into dist. A folder of its own: setuptools would take
# tests and what an earlier build left.
dist:
	rm -rf dist .venv-dist && $(PYTHON) -m venv .venv-dist && mkdir .venv-dist/source
	.venv-dist/bin/python -m pip install --quiet --disable-pip-version-check build
	git archive HEAD pyproject.toml README.md LICENSE daemon metrics | tar -x -C .venv-dist/source
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
	  .venv-dist/bin/python -m build --outdir dist .venv-dist/source >.venv-dist/log || { cat .venv-dist/log; exit 1; }
	rm -rf .venv-dist

clean:
	rm -rf .venv .venv-lock .venv-dist .types build dist *.egg-info .pytest_cache .mypy_cache .hypothesis
	find $(PYTHON_FOLDERS) -name __pycache__ -prune -exec rm -rf {} +
