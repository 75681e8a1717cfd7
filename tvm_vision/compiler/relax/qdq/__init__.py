"""Quantized networks, QuantizeLinear and DequantizeLinear, as kernels on int8."""
