"""Data sets and files: read, split over clients, augmented, marked."""
