"""Benchmarks: `python -m bench`. See docs/performance.md."""
