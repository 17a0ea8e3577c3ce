"""The escape test of `doctor --escape`: a program that tries every harmless way out of a container, and its rules."""
