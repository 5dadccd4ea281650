"""Units become numbers over seeds, and the five tables."""
