"""What a method may do, and how a round of it is run."""
