"""The experiments, in one file per experiment, with the values of the paper for every method."""
