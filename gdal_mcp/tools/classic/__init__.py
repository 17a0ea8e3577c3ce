"""The classic utilities with their classic semantics; one module each."""
