"""Channels in blocks, NCHWc: which tensors keep them so, and each operator's rule for it."""
