"""The parts that several agents share: training programs, networks with units, evaluations."""
