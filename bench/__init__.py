"""Measures calls side by side with what people run today: `python -m bench` (see docs/performance.md)."""
