"""Containers without a daemon: the server runs crun or runc directly on an unpacked image (ADR 23)."""
