"""What is drawn: the trade-off chart, tracks, lines over rounds."""
