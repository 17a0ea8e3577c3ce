"""Workflows: several calls as one document, checked as a whole, approved once, published together."""
