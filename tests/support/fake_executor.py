"""Stands for a loaded network: outputs that a test made up, with a package's word for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from tvm_vision.package import ModelInfo, TensorInfo
from tvm_vision.package.info import plain


class FakeExecutor:
    """Gives the same outputs for whatever goes in; ``inputs`` is what went in last.

    Raises PackageError where the model does not fit the outputs, as a package does.
    """

    device_description = "a processor of the tests (cpu)"

    def __init__(
        self,
        model: ModelInfo,
        outputs: Mapping[str, np.ndarray],
        *,
        shape: tuple[int, ...] = (),
        dtype: str = "float32",
    ) -> None:
        """shape, dtype: of the input; one image of the preprocessing's size where not given."""
        assert model.preprocessing is not None
        shape = shape or (1, 3, *model.preprocessing.size)
        specs = [TensorInfo(name, array.shape, str(array.dtype)) for name, array in outputs.items()]
        model.check(specs)
        self.info: dict[str, Any] = plain(
            {
                "model": asdict(model),
                "inputs": [asdict(TensorInfo("image", shape, dtype))],
                "outputs": [asdict(spec) for spec in specs],
                "checksum": "0" * 64,
                "precision": "fp32",
            }
        )
        self.inputs: dict[str, np.ndarray] = {}
        self._outputs = dict(outputs)

    def set_input(self, name: str, value: np.ndarray) -> None:
        self.inputs[name] = np.array(value)

    def frame(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        spec = self.info["inputs"][0]
        for name, value in inputs.items():
            self.inputs[name] = np.zeros(spec["shape"], spec["dtype"])
            if callable(value):
                value(self.inputs[name])
            else:
                self.inputs[name] = np.array(value)
        return self._outputs

    def run(self) -> None:
        pass

    def outputs(self) -> dict[str, np.ndarray]:
        return self._outputs
