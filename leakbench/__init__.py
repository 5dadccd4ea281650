"""leakbench."""
