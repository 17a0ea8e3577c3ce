"""What a call would do, before it runs: what its inputs are, what it would write and cost, and what is odd about it.

The server opens no dataset: facts come from containers. Nothing here is a guarantee: the limits hold while a call runs.
"""
