"""Solving for the images behind an update: victims, engines, what is believed of what they find."""
