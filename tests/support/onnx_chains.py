"""ONNX networks written operator by operator, and what onnxruntime makes of them."""

from __future__ import annotations

import numpy as np
import onnxruntime
from onnx import helper

from support.onnx_models import make_model


class Chain:
    """An ONNX network of one operator behind the other, with random weights.

    sizes: of the input x behind batch and channels: of a row, an image or a volume.
    """

    def __init__(self, seed, sizes, batch=2, channels=6):
        self.random = np.random.default_rng(seed)
        self.channels, self.shape = channels, (batch, channels, *sizes)
        self.nodes, self.weights, self.last = [], [], "x"

    def add(self, operator, *others, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, [self.last, *others], [name], **attributes))
        self.last = name
        return self

    def number(self, value):
        name = f"w{len(self.weights)}"
        self.weights.append((name, np.asarray(value)))
        return name

    def weight(self, *shape):
        return self.number(self.random.standard_normal(shape).astype("float32") / 4)

    def conv(self, out, kernel, group=1, **attributes):
        weights = self.weight(out, self.channels // group, *_tuple(kernel)), self.weight(out)
        self.channels = out
        return self.add("Conv", *weights, group=group, **attributes)

    def transposed(self, out, kernel, group=1, **attributes):
        weights = self.weight(self.channels, out // group, *_tuple(kernel)), self.weight(out)
        self.channels = out
        return self.add("ConvTranspose", *weights, group=group, **attributes)

    def model(self):
        return make_model(self.nodes, [("x", self.shape)], [(self.last, None)], self.weights)


def _tuple(kernel):
    return (kernel,) if isinstance(kernel, int) else kernel


def assert_right(chain, found, bound=3e-6):
    """``found``, a function of x, gives what onnxruntime does, but for ``bound`` of the largest."""
    model = chain.model()
    x = np.random.default_rng(8).standard_normal(chain.shape).astype("float32")
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    got = found(x)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=0, atol=bound * np.abs(wanted).max())
