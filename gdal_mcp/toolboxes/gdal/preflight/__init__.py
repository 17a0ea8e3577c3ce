"""What a call would do, before it runs: what its inputs are, what it would write and cost, and what looks wrong with it.

The server opens no dataset: facts come from containers. Nothing here is a guarantee: the limits are enforced while a call runs.
"""
