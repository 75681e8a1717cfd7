"""YOEO: boxes and a mask from one network. config.py, layers.py: what a .cfg file says; network.py,
weights.py: the same in PyTorch (imported only there); export.py: as ONNX.
"""
