"""SQL statements as trees, for the host's checks (`reading.py`) and for the container (`outline.py`)."""
