"""The documentation. `python -m docs` writes its generated parts, `python -m docs --check` compares them with the code."""
