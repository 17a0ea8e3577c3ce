"""The server over HTTP: who may come in, and what is there besides the protocol."""
