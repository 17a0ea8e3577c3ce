"""One module per container engine; siblings, never parent and child."""
