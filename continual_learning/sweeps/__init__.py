"""Sweeps: many settings of a method, side by side where they are numbers."""
