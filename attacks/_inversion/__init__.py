"""The engines behind gradient_inversion, and what they are given and checked by."""
