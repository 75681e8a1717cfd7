"""Inputs that nobody wrote, for everything that reads a file: ``python -m support.fuzz``."""
