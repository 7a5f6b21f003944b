"""The parts of a description: fields with bounds, and errors that list the valid values."""
