"""The only place where guess and truth are both open."""
