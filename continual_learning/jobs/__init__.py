"""Studies divided into jobs, each a process of its own: what they are, who starts them, how far."""
