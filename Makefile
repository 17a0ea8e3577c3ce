# `make help` lists the targets. Everything happens in this folder and in .venv, except for the container engine: where none starts
# a container and root runs this on Debian or Ubuntu, `make setup` installs crun, which is not a daemon, then runc, and Docker only
# where neither starts one; the targets with tests install and start Docker.

SHELL := /bin/sh
python := .venv/bin/python
PYTHON ?=
export PYTHON
# for the time in front of each line of progress
export SETUP_STARTED := $(shell date +%s)
# where byte code is kept, pytest collects the tests in half the time: 13 s of CPU, not 24
unexport PYTHONDONTWRITEBYTECODE
pytest_options ?=
# Tests wait for containers for more than half of their time, so one worker more than two cores. The groups and their order are
# those of tests/conftest.py: sorted by the number of tests, the slowest would begin last
workers ?= 3
spread := -n $(workers) --dist loadscope --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup venv engine engines image browser lock lint format types unit test python-image test-all oci kubernetes fuzz conformance demo bench argleton faults soak docs pictures site bundle snapshots clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: image ## virtual environment, container engine and GDAL image; quick when all is there

venv:
	@scripts/venv.sh

test test-all oci kubernetes fuzz conformance faults soak bench argleton: engine_kind := docker
engine: venv
	@scripts/engine.sh $(engine_kind)

image: engine
	@$(python) -m scripts.pull || $(python) -m scripts.standin

lock: venv ## write the lock file anew (UPGRADE=1 moves to the newest versions)
	@scripts/lock.sh $(if $(UPGRADE),--upgrade)

lint: venv ## ruff: rules and formatting; import-linter: which room may import which
	$(python) -m ruff check
	$(python) -m ruff format --check
	.venv/bin/lint-imports --no-cache

format: venv ## let ruff format and mend what it safely can
	$(python) -m ruff format
	$(python) -m ruff check --fix

types: venv ## mypy, strict
	$(python) -m mypy

unit: venv ## the unit tests, which need no container engine: a minute
	$(python) -m pytest $(spread) -m 'not engine and not nightly' $(pytest_options) tests/unit

browser: ## a Chromium for the tests of the console; installed where it may be
	@scripts/browser.sh

engines: ## Podman and gVisor for the tests of engines; installed where they may be
	@scripts/engines.sh

test: setup lint types ## what every change must pass, in minutes: lint, types, and the tests that are not nightly
	$(python) -m pytest $(spread) -m 'not nightly' $(pytest_options)

python-image: setup ## the images of the toolboxes `python` and `augment`, built once; 1.3 GB of wheels
	@$(python) -m gdal_mcp setup --toolbox python
	@$(python) -m gdal_mcp setup --toolbox augment

test-all: setup browser engines python-image lint types ## everything, in about half an hour; needs Chromium, Podman, gVisor, npm, and for a cluster root on Debian 12
	scripts/cluster.sh run $(python) -m pytest $(spread) $(pytest_options)

oci: setup ## as root: the suite of engines, escapes, attacks and faults without a daemon, and other tests that only root can run; about twenty minutes
	GDAL_MCP_ENGINE=oci:///var/tmp/gdal-mcp-tests/oci $(python) -m pytest $(spread) $(pytest_options) \
	    tests/engines/test_oci.py tests/unit/runtime/test_user.py tests/unit/server/test_console_browse.py tests/unit/sandbox/test_staging.py \
	    tests/security/escape tests/security/attacks tests/security/faults --ignore tests/security/faults/test_engine.py --ignore tests/security/faults/test_silence.py --ignore tests/security/escape/test_weakened.py

kubernetes: setup ## the suite of engines, attacks, escapes, kills, faults and 200 mixed calls as Pods: on the cluster of KUBECONFIG, whose nodes see this machine's /var/tmp, else on one that root's Debian 12 makes here
	KUBERNETES=1 scripts/cluster.sh run sh -c '$(python) -m pytest -n 2 --dist loadfile --no-loadscope-reorder --timeout 3600 $(pytest_options) tests/kubernetes \
	    --ignore tests/kubernetes/test_faults.py && $(python) -m pytest --timeout 3600 $(pytest_options) tests/kubernetes/test_faults.py'

fuzz: setup ## the property tests and the models of approvals (100,000 steps) and hosts (10,000) at length, about ten minutes, with other values each time; FUZZ=100 tries a hundred times as much
	FUZZ=$(or $(FUZZ),20) MODEL_EXAMPLES=$(or $(MODEL_EXAMPLES),400) $(python) -m pytest $(spread) --timeout 3600 $(pytest_options) \
	    tests/fuzz tests/unit/runtime/test_hosting_model.py

conformance: setup ## the protocol's own suite and Inspector, in both eras
	CONFORMANCE=all $(python) -m pytest $(spread) $(pytest_options) tests/e2e/conformance

demo: setup ## the main job, visibly, in a new temporary folder
	$(python) -m scripts.demo

bench: setup ## measure calls against plain processes
	$(python) -m bench

argleton: setup ## ask the questions of Argleton, whose wrong answers look right; two minutes
	$(python) -m bench.argleton

faults: setup ## every fault, and a server killed before every statement of a call's life; about a quarter of an hour
	FAULTS=all $(python) -m pytest $(spread) $(pytest_options) tests/security/faults

soak: setup ## ten minutes of mixed calls by four clients; every answer is compared, and nothing may be left
	$(python) -m tests.soak

docs: venv ## write the generated parts of the documentation, and the files by which clients install the server
	$(python) -m docs
	$(python) -m docs.distribution

pictures: python-image browser ## draw the documents' pictures from real runs
	$(python) -m scripts.pictures
	$(python) -m scripts.chips_picture
	$(python) -m scripts.code_picture

site: venv ## build the documentation as a site, in site/; every link and anchor is checked
	.venv/bin/uv run --isolated --no-project --with-requirements requirements/site.txt mkdocs build --strict

bundle: venv ## build dist/gdal-mcp-VERSION.mcpb, which Claude Desktop installs
	$(python) -m scripts.bundle

snapshots: venv ## write what clients get of every tool anew; read the difference before it is committed
	$(python) -m tests.snapshots
	@git --no-pager diff --stat -- tests/snapshots

clean: ## remove .venv and caches; the engine and the image stay
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
