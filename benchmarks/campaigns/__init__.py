"""Campaigns of bad luck and bad will against the command line; docs/reliability.md has the figures.

    python -m benchmarks.campaigns.kills --count 200 --seed 0
    python -m benchmarks.campaigns.mutants --count 2000 --seed 0
    python -m benchmarks.campaigns.circumstances
    python -m benchmarks.campaigns.hostile_text

Each prints a line per failure and a summary, and ends in 1 if anything failed.
"""
