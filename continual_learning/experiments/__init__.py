"""Studies: an experiment × methods × seeds × hyper-parameters, run as one program."""
