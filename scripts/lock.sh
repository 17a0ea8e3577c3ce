#!/bin/sh
# Writes requirements/dev.txt: every dependency for every supported Python and platform, with hashes.
# `scripts/lock.sh --upgrade` moves to the newest versions; without it only what pyproject.toml asks for changes.
set -eu
cd "$(dirname "$0")/.."

.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-config --no-emit-index-url --custom-compile-command 'make lock' \
    --group dev --output-file requirements/dev.txt "$@" pyproject.toml requirements/build.in
echo "requirements/dev.txt is written; run 'make setup' to install it"
