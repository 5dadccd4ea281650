"""Intervals, limits, differences, distance correlation: pure functions of numbers."""
