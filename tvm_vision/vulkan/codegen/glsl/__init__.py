"""TensorIR to GLSL, one kernel at a time."""
