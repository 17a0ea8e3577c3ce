# `make help` lists the targets. Everything happens in this folder and in .venv, except that `make setup` may install and
# start Docker where it runs as root on Debian or Ubuntu and no engine answers.

SHELL := /bin/sh
python := .venv/bin/python
PYTHON ?=
export PYTHON
pytest_options ?=
# Tests wait for containers more than they compute; a file stays with one worker, so that its servers are shared
workers ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup venv engine image browser lock lint format types unit test conformance demo bench soak docs snapshots clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

setup: image ## virtual environment, container engine and GDAL image; quick when all is there

venv:
	@scripts/venv.sh

engine: venv
	@scripts/engine.sh

image: engine
	@$(python) -m gdal_mcp.image ensure

lock: venv ## write the lock file anew (UPGRADE=1 moves to the newest versions)
	@scripts/lock.sh $(if $(UPGRADE),--upgrade)

lint: venv ## ruff: rules and formatting
	$(python) -m ruff check
	$(python) -m ruff format --check

format: venv ## let ruff format and mend what it safely can
	$(python) -m ruff format
	$(python) -m ruff check --fix

types: venv ## mypy, strict
	$(python) -m mypy

unit: venv ## the tests that need no container engine
	$(python) -m pytest -n $(workers) --dist loadfile -m 'not engine' $(pytest_options)

browser: ## a Chromium for the tests of the console; installed where it may be
	@scripts/browser.sh

test: setup browser lint types ## everything that must pass: set-up, lint, types, all tests
	$(python) -m pytest -n $(workers) --dist loadfile $(pytest_options)

conformance: setup ## the protocol's own suite and Inspector, in both eras
	CONFORMANCE=all $(python) -m pytest -n $(workers) --dist loadfile $(pytest_options) tests/conformance

demo: setup ## the main job, visibly, in a new temporary folder
	$(python) scripts/demo.py

bench: setup ## measure calls against plain processes
	$(python) -m bench

soak: setup ## ten minutes of mixed calls by four clients; every answer is compared, and nothing may be left
	$(python) -m tests.soak

docs: venv ## write the generated parts of the documentation
	$(python) -m docs

snapshots: venv ## write what clients get of every tool anew; read the difference before it is committed
	$(python) -m tests.snapshots
	@git --no-pager diff --stat -- tests/snapshots

clean: ## remove .venv and caches; the engine and the image stay
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
