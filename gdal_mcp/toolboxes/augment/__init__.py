"""The toolbox `augment`: augmentation of imagery that keeps its place on earth."""
