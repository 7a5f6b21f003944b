"""The experiments, one file each, with the values of the paper for every method."""
