"""What several agents share: the training program, networks with their units, evaluations."""
