"""Units, features and per-sample scores, read from the program of any JAX model."""
