"""The paper: its tables and figures by id, its numbers, and which studies they need."""
