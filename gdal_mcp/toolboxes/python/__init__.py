"""The toolbox `python`: code that a model writes, run beside the data."""
