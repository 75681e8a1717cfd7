"""ONNX files in: checks, simplification, rewrites of what TVM's importer lacks, import."""
