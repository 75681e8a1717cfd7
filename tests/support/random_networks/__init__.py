"""Networks that nobody drew: operators of vision networks, put together by chance.

    python -m tests.support.random_networks --count 200 --seed 1 build/random
    python -m tests.support.zoo build/random --results build/random.jsonl --targets llvm,vulkan

What is right node by node can be wrong together: fusions, layouts, slices and concatenations in
place, folded scales. Each seed gives one file, always the same. Weights keep values near 1, so that
errors show; sizes are small and odd, so that edges and remainders are everywhere. With ``--wide``
they are those of networks that are used: kernels have several tiles then.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx

# isort: off
# In this order, which with the seed decides what a network is made of.
from . import image_steps, sequence_steps, value_steps, axis_steps  # noqa: F401
from . import index_steps, rare_image_steps, rare_sequence_steps  # noqa: F401
from . import layer_steps, repeated_steps  # noqa: F401

# isort: on
from .network import FEWEST, MOST, STEPS, Network, Shape, Step

__all__ = ["STEPS", "Network", "Step", "random_network", "write"]


def random_network(seed: int, wide: bool = False) -> onnx.ModelProto:
    """The network of a seed, checked, in opset 20; its input is "x", float32."""
    network = Network(seed, wide)
    rank = network.one_of(4, 4, 4, 4, 3, 2)
    batch = network.one_of(1, 1, 1, 2, 3)
    if rank == 4:
        channels = network.one_of(1, 3, 3, 4, 5, 8, 12, 16)
        extents = (20, 60) if wide else (4, 17)
        shape: Shape = (batch, channels, network.between(*extents), network.between(*extents))
    elif rank == 3:
        rows = network.between(*((40, 220) if wide else (3, 17)))
        shape = (batch, rows, network.width(4, 6, 8, 12, 16, 24))
    else:
        shape = (batch, network.between(4, 40) * (16 if wide else 1))
    network.input("x", shape)
    network.grow(network.between(FEWEST, MOST))
    model = network.model()
    onnx.checker.check_model(model, full_check=True)
    return model


def write(folder: Path, seeds: Sequence[int], wide: bool = False) -> None:
    """SEED.onnx for each."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        onnx.save(random_network(seed, wide), folder / f"{seed:06}.onnx")
