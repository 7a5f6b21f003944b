"""A classifier on a stream of supervised tasks."""
