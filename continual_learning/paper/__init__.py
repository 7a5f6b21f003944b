"""The paper: its tables and figures by id, its numbers, and the studies that they need."""
