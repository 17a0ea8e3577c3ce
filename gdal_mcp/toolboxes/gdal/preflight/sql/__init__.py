"""SQL statements as trees: what the host's checks ask of them (`reading.py`), and what a container measures of them (`outline.py`)."""
