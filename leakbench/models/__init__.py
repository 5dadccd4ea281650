"""Networks with named stages."""
