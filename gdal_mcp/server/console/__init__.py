"""The web console: authentication, the data for each viewer, and the page itself."""
