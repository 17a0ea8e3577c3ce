"""What every engine must do, as checks that its author runs: by command, or in a test for each (`docs/engines.md`).

    python -m sandbox.conformance --engine unix:///run/podman/podman.sock --image localhost/gdal-mcp-standin:3.13.3

A check is tried on the real thing and judged by effect. An engine that cannot do something has an exemption with its reason;
an exemption that is not true any more is an error like a failure.
"""
