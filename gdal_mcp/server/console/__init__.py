"""The web page on which people decide and look: who may come in, what is told to whom, and the page itself."""
