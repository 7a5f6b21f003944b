"""Videos of trained policies: what they do, as labelled panels, in a file."""
