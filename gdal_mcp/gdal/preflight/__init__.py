"""What a call would do, before it runs: what its inputs are, what it would write and cost, and what is odd about it.

header.py and headers/ say what a file is; estimate.py what a call would cost, by cost.toml; excess.py which limit that
breaks; advice.py what a careful colleague would mention. Only headers/ reads files. Nothing here is a guarantee: the
limits hold while a call runs, whatever was foreseen.
"""
