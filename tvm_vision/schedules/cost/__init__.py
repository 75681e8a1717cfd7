"""Models of a device: which tiles are likely to be the fastest."""
