"""Networks of training frameworks in, ONNX files and what describes them out."""
