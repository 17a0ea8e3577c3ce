"""Container engines, one module or subpackage for each; `opening.py` chooses one."""
