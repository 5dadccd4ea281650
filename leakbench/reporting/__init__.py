"""One report value from everything below, handed to a format."""
