"""Kernels by content: what the functions of a network become, made once and kept."""
