"""What runs in the containers of the toolbox `python`."""
