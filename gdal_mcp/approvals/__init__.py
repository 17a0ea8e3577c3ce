"""Asks a person. The only truth is a row in the registry, bound to the digest of exactly what will run."""
