"""Driver options that name a file, a library, a URL, a secret or SQL: none of them is ever passed on."""
OPTIONS = []
