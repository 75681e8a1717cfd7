"""TensorIR to GLSL to SPIR-V: the code generator that TVM calls for ``vulkan``."""
