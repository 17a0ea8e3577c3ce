"""Kubernetes as an engine: each container runs in its own Pod."""
