"""The raw change table: append-only, exactly once, with every schema that its rows were written under."""
