"""What ``tvm-vision demo-classifier`` does: a real network on real photos, beside onnxruntime."""
