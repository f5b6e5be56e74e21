# `make demo` and `make test` need make and Python 3.11 or newer, nothing else: they make .venv and install there
# what they need.
# MISSING_OK="data mosquitto" accepts that parts are missing; METERAGENT_DATA names the folder of real traces.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed
DEMO_STAMP := .venv/installed-demo
PROJECTS := pyproject.toml simulators/pyproject.toml
ROUNDS ?= 5
# What `make quick` tests: the rooms that decide what leaves, lowest first.
ROOM ?= domain wire decode core store mqtt config
# What `make change` tests: the rooms of the files that differ from origin/main or, without it, from the last commit.
TOUCHED = $(shell { git diff --name-only "$$(git merge-base HEAD origin/main || echo HEAD)"; git ls-files --others --exclude-standard; } 2>/dev/null | \
  sed -nE 's,^(meteragent/|tests/)?([a-z]+)/.*,tests/\2,p')
# What writes tables into pages, and other files that tests compare with the code.
TABLES := $(addprefix tests.commands.,commands_table presets_table profile_table signs_table contracts) benchmarks.table
# The rooms whose branches their own tests must reach (fail_under in pyproject.toml).
COVERED := $(addprefix tests/,domain core wire store)
# Logs of long runs, by revision: a run goes on in its log, and a log of other code is refused.
LOGS ?= faults-logs/$(shell git describe --always --dirty --abbrev=12 --exclude='*' 2>/dev/null || echo unknown)
# They watch the clock, and mostly wait: only one other of them runs beside each.
CLOCKED := $(patsubst %,tests/integration/test_%.py,faults links outages store_faults wall_clock)
# It counts what a slow machine does otherwise: nothing runs beside it.
ALONE := tests/integration/test_load.py
BENCH_STAMP := .venv/installed-bench
export PATH := $(CURDIR)/$(BIN):$(PATH)
unexport PYTHONDONTWRITEBYTECODE  # tests start Python some hundred times

.PHONY: help demo quick change tables test fast-tests spark-tests covered-tests broker-tests lint types docs notebooks pictures parts unit real faults brokers deb boot image release homeassistant mutants proofs bench clean

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 8

demo: $(DEMO_STAMP) ## the main job by itself, with simulated homes and a broker of its own, in a minute
	@$(BIN)/python -m simulators demo

test: export HYPOTHESIS_PROFILE ?= ci
test: $(STAMP) ## everything: style, types, import contracts, all tests
	$(MAKE) --jobs=2 --output-sync=target lint types parts docs
	$(MAKE) --jobs=3 --output-sync=target fast-tests broker-tests spark-tests
	$(BIN)/python -m pytest -n 2 --dist loadfile -m integration $(CLOCKED)
	$(BIN)/python -m pytest -m integration $(ALONE)
	@echo "make test ran: ruff check, ruff format, import contracts, language, spelling, mypy --strict, the documentation,"
	@echo "and the tests of units, statistics, integration and Spark; what was NOT RUN is listed above."

# All at once: tests with brokers mostly wait, and the others take what they leave of the processors.
spark-tests:
	nice -n 10 $(BIN)/python -m pytest -m spark tests/spark

fast-tests: covered-tests
	nice -n 10 $(BIN)/python -m pytest -n auto --dist worksteal -m "not integration and not spark and not covered"

covered-tests: # fails where a branch of domain, core, wire or store is not reached: fail_under in pyproject.toml
	nice -n 10 $(BIN)/python -m pytest -n auto --dist worksteal -m covered --cov --cov-report=term $(COVERED)

broker-tests:
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m integration tests/integration \
	  $(CLOCKED:%=--ignore=%) $(ALONE:%=--ignore=%)

lint: $(STAMP) ## style, import contracts, language and spelling
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python -m tests.commands.language
	$(BIN)/codespell

types: $(STAMP) ## mypy --strict
	$(BIN)/mypy

docs: $(STAMP) ## the documentation site, in build/docs; a warning is an error
	nice -n 10 $(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -c docs . build/docs
	@echo "Open $(CURDIR)/build/docs/index.html"

notebooks: $(STAMP) ## execute the notebooks of the documentation and store what they print and draw (2 minutes)
	$(BIN)/python -m pip install --quiet --group notebooks
	nice -n 10 $(BIN)/python -m tests.commands.notebooks

pictures: $(STAMP) ## the pictures of the documentation, drawn anew from their seeds (3 minutes)
	nice -n 10 $(BIN)/python -m tests.commands.pictures

parts: $(STAMP)
	@$(BIN)/python tests/commands/system_parts.py mosquitto openssl systemd-analyze chromium java postgres nats-server prometheus strace zsh fish

quick: $(STAMP) ## after every edit: style, and the unit tests of the core packages, with few examples (one or two minutes; ROOM=core for one)
	$(BIN)/ruff check
	$(BIN)/ruff format --check --quiet
	HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -q -n 2 --dist worksteal \
	  -m "not slow and not parts and not data" $(addprefix tests/,$(ROOM))

change: $(STAMP) lint types ## before a pull request: style, types, and the fast tests of the rooms you changed, and of commands, texts and pages (5 minutes)
	HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -q -n 2 --dist worksteal \
	  -m "not slow and not parts and not data and not statistical" $(wildcard $(sort $(TOUCHED) tests/cli tests/house tests/texts))

tables: $(STAMP) ## the generated tables of the pages, the contract's files and the schema, written anew
	@for table in $(TABLES); do $(BIN)/python -m $$table || exit 1; done

unit: $(STAMP) parts ## the fast tests: no integration, no statistics, no Spark, no real traces
	$(BIN)/python -m pytest -n auto -m "not integration and not statistical and not spark and not data"

real: $(STAMP) parts ## the whole run on real traces (minutes)
	METERAGENT_REAL=whole $(BIN)/python -m pytest tests/integration/test_real.py tests/statistical/test_presets.py

faults: $(STAMP) parts ## kill -9 of agent and brokers, 200 rounds each, beside two receivers, 100, of collect, its database and its brokers, 50 each, and of a crowd's operators, broker and homes, 100 each; hostile senders; every bit of a small store flipped; the law of what leaves; load in figures; 100,000 schedules; goes on where it was stopped (hours)
	$(BIN)/python -m tests.commands.kill_rounds --rounds 200 --log $(LOGS)/kill_rounds.jsonl
	$(BIN)/python -m tests.commands.kill_rounds --receivers --rounds 100
	$(BIN)/python -m tests.commands.collect_rounds --rounds 50 --log $(LOGS)/collect_rounds.jsonl
	$(BIN)/python -m tests.commands.hostile mutations
	$(BIN)/python -m tests.commands.hostile senders
	$(BIN)/python -m tests.commands.crowd_rounds --rounds 100 --log $(LOGS)/crowd_rounds.jsonl
	$(BIN)/python -m tests.commands.rot --log $(LOGS)/rot.jsonl
	$(BIN)/python -m tests.commands.law --windows 50000 --log $(LOGS)/law.jsonl
	$(BIN)/python -m tests.commands.load --meters 100
	$(BIN)/python -m tests.commands.load --meters 10000
	$(BIN)/python -m simulators simtest --fresh --seeds 100000 --log $(LOGS)/simtest.jsonl

brokers: $(STAMP) ## the MQTT client and kill -9 with mosquitto, RabbitMQ, NATS, aedes and amqtt (8 minutes; BROKER=nats-2.10 for one; KILLS=30 sets the number of kills; goes on where it was stopped)
	$(BIN)/python -m tests.commands.brokers $(BROKER) $(if $(KILLS),--kills $(KILLS)) --log $(LOGS)/brokers.jsonl

deb: $(STAMP) ## the Debian package, built twice, installed and run on 64 and 32 bits (as root; 3 minutes; ARCH="i386" for one)
	nice -n 10 $(BIN)/python -m tests.commands.deb $(ARCH)

boot: $(STAMP) ## systems that boot: the unit, a fleet, the Debian package, a user's service, podman, and all services together under systemd (as root; 4 minutes; PART="unit" for one)
	nice -n 10 $(BIN)/python -m tests.commands.boot $(PART)

image: $(STAMP) ## all container images, built twice and run, the chain of deploy/compose, and the operators of deploy/crowd (as root; 12 minutes; BASE=python:3.13-slim pulls a base instead of making one)
	nice -n 10 $(BIN)/python -m tests.commands.image $(if $(BASE),--base $(BASE))

release: $(STAMP) ## sdists, wheels, .deb, images, bills of materials and checksums of the last commit, each tried (as root; 15 minutes)
	nice -n 10 $(BIN)/python -m tests.commands.release $(if $(BASE),--base $(BASE))

homeassistant: $(STAMP) ## a real Home Assistant, the oldest supported version and a current one, with the agent's devices and statistics (8 minutes; VERSION=2024.11.0 for one)
	nice -n 10 $(BIN)/python -m tests.commands.homeassistant $(VERSION)

mutants: $(STAMP) ## two mistakes or more in each result of the papers, one by one, that its test must find (17 minutes)
	$(BIN)/python -m tests.commands.paper_mutants

proofs: $(STAMP) ## the theorems of proofs/README.md, checked by Coq, with the axioms of each (half a minute; NOT RUN without Coq)
	nice -n 10 $(BIN)/python -m tests.commands.proofs

bench: $(STAMP) $(BENCH_STAMP) ## every benchmark with goals, side by side with the peers (ROUNDS=5; 16 minutes)
	@$(BIN)/python tests/commands/system_parts.py mosquitto java || true
	@$(BIN)/python -m benchmarks --rounds $(ROUNDS) --out benchmarks/results.json; code=$$?; \
	  $(BIN)/python -m benchmarks.picture && $(BIN)/python -m benchmarks.table && exit $$code

clean: ## back to a fresh clone
	rm -rf .venv docs/api docs/notebooks/*.md docs/notebooks/*.png .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .coverage* build dist demo-out faults-logs

$(STAMP): $(PROJECTS) | .venv/made
	@echo "Installing what make needs into .venv takes some minutes."
	$(BIN)/python -m pip install --quiet --editable '.[page,crowd,spark,completion]' --editable './simulators[sim,demo]' --group dev --group docs
	@touch $@ $(DEMO_STAMP)

$(DEMO_STAMP): $(PROJECTS) | .venv/made
	$(BIN)/python -m pip install --quiet --editable . --editable './simulators[demo]'
	@touch $@

$(BENCH_STAMP): $(PROJECTS) | $(STAMP)
	@if $(BIN)/python -m pip install --quiet --editable '.[archive,spark]' --editable './simulators[sim]' --group bench; then touch $@; \
	  else echo "Not all peers could be installed: those that are missing are named below."; fi

.venv/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed and $(PYTHON) is not: make PYTHON=python3.13 names another"; exit 1; }
	@$(PYTHON) -m venv .venv || \
	  { echo "$(PYTHON) cannot make an environment: on Debian and Ubuntu the package python3-venv is missing"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@touch $@
