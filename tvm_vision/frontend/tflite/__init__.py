"""TFLite files in: read and checked, then ONNX models of them, which go the way of all others."""
