"""Asking a person. One truth: a row in the registry, bound to the digest of exactly what will run."""
