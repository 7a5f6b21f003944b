"""Labeled examples: how they are read, and the streams of tasks that are made of them."""
