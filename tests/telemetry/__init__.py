"""What monitoring systems see of a run."""
