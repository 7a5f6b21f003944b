"""Data sets of labeled examples, and the streams of tasks that are made of them."""
