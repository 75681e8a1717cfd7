"""The static graph, kernels in order over tensors, and the steps that work on it."""
