"""The node tests of the onnx package, run in processes of their own, and the page of results."""
