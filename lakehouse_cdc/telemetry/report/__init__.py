"""What a pipeline did over time, as one HTML page that needs nothing else."""
