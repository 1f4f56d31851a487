"""A real server judges how statements are followed: see `judge`."""
