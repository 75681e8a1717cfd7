"""Frames in, input tensors out; output tensors in, results (results.py) out.

Needs numpy and OpenCV only: never TVM's compiler, so that a robot runs with the runtime alone.
"""
