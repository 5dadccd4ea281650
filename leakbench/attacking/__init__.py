"""What an attack is: its threat model, its view of a run, its guesses; and how it is replayed."""
