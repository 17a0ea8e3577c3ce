# The server, to run beside its engine as compose.yaml shows. GDAL is not in it: that is in the containers of the calls.
#
# Pin the base by its digest where images are published: --build-arg BASE=python:3.13-slim-trixie@sha256:...
# Without a network: put the wheels of requirements/{server,package}.txt into wheels/ and give --build-arg PIP_NO_INDEX=1
ARG BASE=python:3.13-slim-trixie

FROM ${BASE} AS packages
LABEL io.gdal-mcp.stage=build
ARG PIP_NO_INDEX
ENV PIP_FIND_LINKS=/build/wheels PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1
WORKDIR /build
# the folder `wheels` need not be there: the first name always is
COPY requirements/server.txt requirements/package.txt wheel[s] wheels/
RUN python3 -m venv /opt/build \
 && python3 -m venv --without-pip /opt/gdal-mcp \
 && /opt/build/bin/pip install --no-deps --require-hashes -r wheels/package.txt \
 && /opt/build/bin/pip --python /opt/gdal-mcp/bin/python install --no-deps --require-hashes -r wheels/server.txt

# by itself, so that a new version of the server is a small layer above the same packages
FROM packages AS build
COPY pyproject.toml README.md LICENSE ./
COPY sandbox sandbox
COPY gdal_mcp gdal_mcp
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir made . \
 && /opt/build/bin/pip --python /opt/gdal-mcp/bin/python install --no-deps --no-index --prefix /opt/own made/*.whl
COPY deploy/healthcheck.py /opt/own/healthcheck.py

FROM ${BASE}
# everybody's, as a new volume mounted here takes its mode: whoever the server becomes makes it its own
RUN mkdir -m 1777 /var/lib/gdal-mcp
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="gdal-mcp" \
      org.opencontainers.image.description="MCP server for GDAL that runs every call in one hardened, single-use container" \
      org.opencontainers.image.source="https://github.com/gdal-mcp/gdal-mcp" \
      io.modelcontextprotocol.server.name="io.github.gdal-mcp/gdal-mcp" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=packages /opt/gdal-mcp /opt/gdal-mcp
COPY --from=build /opt/own /opt/gdal-mcp
# every address of its own network, so that a port can be published; the settings of compose.yaml say to whom
ENV PATH=/opt/gdal-mcp/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    GDAL_MCP_HOST=0.0.0.0 \
    GDAL_MCP_PORT=8000 \
    GDAL_MCP_CONSOLE_PORT=8000 \
    GDAL_MCP_RUN_AS=owner \
    GDAL_MCP_STATE_DIR=/var/lib/gdal-mcp
# no USER: the server sees whose the workspace is and becomes that user; started as another, it stays that one
WORKDIR /tmp
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["/opt/gdal-mcp/bin/python", "-I", "/opt/gdal-mcp/healthcheck.py"]
ENTRYPOINT ["/opt/gdal-mcp/bin/gdal-mcp"]
CMD ["serve", "--transport", "http"]
