"""Two frames in flight: one on the device while the next is prepared.

python examples/stream_of_frames.py
"""

import tempfile
from pathlib import Path

import numpy as np
from small_network import LABELS, SIZE, write_network

import tvm_vision


def frames(count: int):
    """A camera that turns from one colour to the next; float32 [1, 3, 64, 64], and the colour."""
    for number in range(count):
        image = np.full((1, 3, SIZE, SIZE), 0.1, np.float32)
        image[:, number % 3] = 0.9
        yield image, LABELS[number % 3]


with tempfile.TemporaryDirectory() as folder:
    model = write_network(Path(folder) / "colors.onnx")
    network = tvm_vision.load(tvm_vision.compile(model, Path(folder) / "colors.tar"))

    def finish(ticket: int, expected: str) -> None:
        network.wait(ticket)
        seen = LABELS[int(network.get_output(0).numpy().argmax())]
        print(f"frame {ticket}: {seen}")
        assert seen == expected

    waiting = None
    for image, expected in frames(12):
        network.set_input("image", image)  # each frame has inputs of its own
        ticket = network.submit()  # returns at once
        if waiting is not None:
            finish(*waiting)
        waiting = ticket, expected
    finish(*waiting)
