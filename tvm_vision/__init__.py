"""Neural vision for robots: networks on any Vulkan GPU with the stock wheel of Apache TVM.

Importing it registers the Vulkan backend with TVM, at once or when TVM is imported:
``tvm.vulkan(0)`` and targets of kind ``vulkan`` work. All else but errors is imported on first use,
so that running never imports the compiler, and a look at a command's help not even TVM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import (
    DeviceError,
    DeviceLostError,
    InputError,
    PackageError,
    SharedMemoryError,
    TuningError,
    TvmVisionError,
    UnsupportedKernelError,
    UnsupportedModelError,
)
from .lazy import lazy_names
from .version import __version__
from .with_tvm import register_with_tvm

if TYPE_CHECKING:
    from . import vulkan
    from .api import compile, quantize
    from .compiler.build import CompiledModel
    from .fleets import compile_fleet
    from .models import load_model
    from .models.converters import to_coco, to_pandas, to_supervision
    from .models.instance_masks import InstanceMasks
    from .models.results import (
        Classification,
        DepthMap,
        Detections,
        SegmentationMask,
        Timing,
        VisionResult,
    )
    from .models.vision_model import VisionModel
    from .options import CompileOptions
    from .package.info import ModelInfo
    from .runtime.graph_executor import GraphExecutor
    from .runtime.loader import load
    from .runtime.recovery import Recovery
    from .tuning.session import tune_model as tune
    from .tuning.tuner import TuningOptions, TuningOutcome

__all__ = [
    "Classification",
    "CompileOptions",
    "CompiledModel",
    "DepthMap",
    "Detections",
    "DeviceError",
    "DeviceLostError",
    "GraphExecutor",
    "InputError",
    "InstanceMasks",
    "ModelInfo",
    "PackageError",
    "Recovery",
    "SegmentationMask",
    "SharedMemoryError",
    "Timing",
    "TuningError",
    "TuningOptions",
    "TuningOutcome",
    "TvmVisionError",
    "UnsupportedKernelError",
    "UnsupportedModelError",
    "VisionModel",
    "VisionResult",
    "__version__",
    "compile",
    "compile_fleet",
    "load",
    "load_model",
    "quantize",
    "to_coco",
    "to_pandas",
    "to_supervision",
    "tune",
    "vulkan",
]

_RESULTS = (
    "Classification", "DepthMap", "Detections", "SegmentationMask", "Timing", "VisionResult",
)  # fmt: skip
_LOAD = "load_model(path), and then network(image) or network.stream(source)"
# Names of ultralytics, supervision and onnxruntime.
_OTHERS = {
    **dict.fromkeys(("YOLO", "RTDETR", "Model", "AutoBackend", "predict", "detect"), _LOAD),
    **dict.fromkeys(("InferenceSession", "Interpreter", "graph_executor"), "load(path)"),
    **dict.fromkeys(("export", "convert", "build", "from_onnx"), "compile(model, output)"),
    **dict.fromkeys(("draw", "draw_result", "plot"), "tvm_vision.models.draw.draw_result"),
    **dict.fromkeys(("track", "Tracker", "ByteTrack"), "tvm_vision.models.tracking.FrameTracker"),
    **dict.fromkeys(("benchmark", "profile"), "the commands 'tvm-vision benchmark' and 'profile'"),
    "val": "the command 'tvm-vision evaluate'",
    **dict.fromkeys(("checks", "list_devices"), "vulkan.devices(), or 'tvm-vision doctor'"),
}  # fmt: skip
if not TYPE_CHECKING:  # for which no name would be a wrong one
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            **dict.fromkeys(_RESULTS, ".models.results"),
            **dict.fromkeys(("TuningOptions", "TuningOutcome"), ".tuning.tuner"),
            **dict.fromkeys(("compile", "quantize"), ".api"),
            "compile_fleet": ".fleets",
            **dict.fromkeys(("to_coco", "to_pandas", "to_supervision"), ".models.converters"),
            "CompileOptions": ".options",
            "CompiledModel": ".compiler.build",
            "GraphExecutor": ".runtime.graph_executor",
            "InstanceMasks": ".models.instance_masks",
            "ModelInfo": ".package.info",
            "VisionModel": ".models.vision_model",
            "Recovery": ".runtime.recovery",
            "load": ".runtime.loader",
            "load_model": ".models",
            "tune": (".tuning.session", "tune_model"),
            "vulkan": (".vulkan", ""),
        },
        _OTHERS,
    )

register_with_tvm()
