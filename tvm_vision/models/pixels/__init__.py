"""Networks with a value for each pixel: classes (segmenter) or depth."""
