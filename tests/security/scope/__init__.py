"""Servers whose calls see only what they name (`mount_scope = inputs`), beside servers whose calls see whole workspaces."""
