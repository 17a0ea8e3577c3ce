"""The toolbox `augment`: augmentation of imagery that keeps its georeference."""
