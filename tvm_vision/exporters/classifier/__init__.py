"""Classifiers of PyTorch to ONNX."""
