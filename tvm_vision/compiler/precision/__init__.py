"""fp16: which tensors are kept in it, what that does to the outputs, and kernels for it."""
