"""YOEO networks, a Darknet cfg and weights, to ONNX."""
