"""Networks of many families beside PyTorch's CUDA graph: where is ours slower?"""
