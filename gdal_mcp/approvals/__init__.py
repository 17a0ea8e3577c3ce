"""Asks a person for approval. What counts is only a row in the registry, bound to the digest of what will run."""
