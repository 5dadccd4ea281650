"""A run's folder: its spec, the messages kept, checkpoints; how an attacker may read it."""
