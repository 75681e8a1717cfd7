"""The light models of the onnx package: real networks, their weights all of one value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx import numpy_helper

from support.conformance.conformance_worker import executor
from tvm_vision.errors import DeviceError
from tvm_vision.frontend.onnx.load import import_onnx

FOLDER = Path(onnx.backend.test.__file__).parent / "data" / "light"
QUICK = ("squeezenet",)
SLOW = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "vgg19",
    "zfnet512",
)
MODELS = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
RTOL, ATOL = 1e-3, 1e-7  # those of the onnx package


@pytest.mark.parametrize("target", ["llvm", pytest.param("vulkan", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODELS)
def test_light_model_gives_the_stored_output(name: str, target: str) -> None:
    path = FOLDER / f"light_{name}.onnx"
    imported = import_onnx(path)
    shape = imported[1].inputs[0].shape
    # The input that the stored outputs were computed for: a ramp from 0 to 1.
    size = int(np.prod(shape))
    ramp = (np.arange(size).reshape(shape) / size).astype(np.float32)
    try:
        result = executor(imported, target)(ramp)[0]
    except DeviceError as error:
        if "maxStorageBufferRange" not in str(error):
            raise
        # The weights of the largest products pass lavapipe's 128 MiB.
        pytest.skip(str(error))
    stored = numpy_helper.to_array(onnx.load_tensor(path.with_name(f"{path.stem}_output_0.pb")))
    np.testing.assert_allclose(result.reshape(stored.shape), stored, rtol=RTOL, atol=ATOL)
