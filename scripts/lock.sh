#!/bin/sh
# Writes the files of requirements/: every dependency for every supported Python and platform, with hashes. dev.txt is what
# the checkout uses; server.txt and package.txt hold what the image of the server has, and what builds its package, in the
# same versions; site.txt what builds the documentation's site.
# `scripts/lock.sh --upgrade` moves to the newest versions; without it only what pyproject.toml asks for changes.
set -eu
cd "$(dirname "$0")/.."

compile() {
    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-config --no-emit-index-url --custom-compile-command 'make lock' "$@"
}

compile --group dev --extra remote --output-file requirements/dev.txt "$@" pyproject.toml requirements/build.in
compile --constraints requirements/dev.txt --output-file requirements/server.txt pyproject.toml
compile --constraints requirements/dev.txt --output-file requirements/package.txt requirements/package.in
compile --constraints requirements/dev.txt --output-file requirements/site.txt --group site
# of the images of other toolboxes: for the Pythons of GDAL images, and in the package, as set-up builds the images
for toolbox in python augment; do
    .venv/bin/uv pip compile --quiet --universal --python-version 3.12 --generate-hashes --only-binary :all: \
        --no-config --no-emit-index-url --custom-compile-command 'make lock' \
        --output-file gdal_mcp/toolboxes/$toolbox/data/requirements.txt "$@" requirements/$toolbox.in
done
echo "the files of requirements/ are written; run 'make setup' to install them"
