"""The toolbox `augment`: imagery changed as a prompt says, which keeps its place on earth."""
