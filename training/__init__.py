"""Renders robot-soccer scenes and trains the demo network on them; docs/demo-model.md tells how."""
