"""What experiments are described with: fields with bounds, and errors that say what is valid."""
