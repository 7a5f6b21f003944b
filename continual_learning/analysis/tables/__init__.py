"""Tables of the paper, from studies and from specs, beside its own numbers."""
