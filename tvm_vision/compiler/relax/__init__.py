"""Passes over Relax functions, before there are kernels."""
