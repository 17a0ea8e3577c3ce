"""Hostile code in a container exactly like a job's: what it tries, what it sees, and what that proves."""
