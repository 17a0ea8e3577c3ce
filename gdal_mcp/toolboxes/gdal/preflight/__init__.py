"""Checks a call before it runs: facts about its inputs, the predicted output and its cost, and likely mistakes.

The server opens no dataset: facts come from containers. Nothing here is a guarantee: the limits are enforced while a
call runs.
"""
