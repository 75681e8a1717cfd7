"""Operators of our own as tensor expressions, beside those of TVM's operator inventory, topi."""
