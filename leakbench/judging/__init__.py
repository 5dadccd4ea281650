"""From numbers to verdicts, fronts and sentences."""
