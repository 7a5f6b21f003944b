"""The folder of a study: metrics as Parquet parts, checkpoints, a lock, facts about its machine."""
