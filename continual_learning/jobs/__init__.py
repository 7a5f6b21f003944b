"""Studies divided into jobs, which are processes of their own."""
