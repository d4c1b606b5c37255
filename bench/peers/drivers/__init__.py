"""One driver per peer: its best documented settings, and nothing else."""
