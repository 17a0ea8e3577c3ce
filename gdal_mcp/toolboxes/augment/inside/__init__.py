"""The code that runs in the containers of the toolbox `augment`."""
