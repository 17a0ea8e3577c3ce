"""The web console: authentication, what each viewer sees, and the page itself."""
