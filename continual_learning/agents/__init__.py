"""Agents: training programs that are pure functions and receive their optimizers."""
