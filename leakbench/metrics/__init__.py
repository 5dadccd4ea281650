"""How each kind of guess is scored."""
