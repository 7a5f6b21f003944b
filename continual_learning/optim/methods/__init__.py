"""The methods, one in each file; they know nothing of one another."""
