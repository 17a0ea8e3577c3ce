"""Containers without a daemon: crun or runc run directly on an unpacked image, by a server that is root (ADR 23)."""
