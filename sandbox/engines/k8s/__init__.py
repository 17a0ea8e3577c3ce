"""Kubernetes as an engine: each container is a Pod of its own."""
