"""Source against silver, at one position, while writes continue."""
