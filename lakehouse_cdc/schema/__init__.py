"""What a source table looks like, and what its types become. Pure."""
