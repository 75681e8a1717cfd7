"""Renders robot-soccer scenes and trains the demo network on them.

docs/reference/demo-model.md tells how.
"""
