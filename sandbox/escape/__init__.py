"""The escape test of `doctor --escape`: a program that tries harmless ways out of a container, and its rules."""
