"""ONNX Runtime: on the CPU, by CUDA, and by its WebGPU plug-in (which runs on Vulkan here)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .engine import Engine, Files, NotInstalled, Session, Unusable


def _onnxruntime() -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise NotInstalled("pip install onnxruntime") from None
    onnxruntime.set_default_logger_severity(3)
    return onnxruntime


class _Session(Session):
    def __init__(self, session: Any, device: str) -> None:
        self._session = session
        self._input = session.get_inputs()[0].name
        self.device = device

    def run(self, image: np.ndarray) -> list[np.ndarray]:
        return self._session.run(None, {self._input: image})


class Cpu(Engine):
    title = "ONNX Runtime, CPU"
    # Its kernels for fp16 on processors mostly convert to float32 and back.
    precisions = ("fp32",)
    on_cpu = True

    def version(self) -> str:
        return _onnxruntime().__version__

    def load(self, files: Files, precision: str) -> Session:
        ort = _onnxruntime()
        path = str(files.model(precision))
        return _Session(ort.InferenceSession(path, providers=["CPUExecutionProvider"]), "CPU")


class Cuda(Engine):
    title = "ONNX Runtime, CUDA"

    def version(self) -> str:
        ort = _onnxruntime()
        if "CUDAExecutionProvider" not in ort.get_available_providers():
            raise NotInstalled(f"onnxruntime {ort.__version__} here is built without CUDA")
        return ort.__version__

    def load(self, files: Files, precision: str) -> Session:
        ort = _onnxruntime()
        session = ort.InferenceSession(
            str(files.model(precision)), providers=["CUDAExecutionProvider"]
        )
        if "CUDAExecutionProvider" not in session.get_providers():
            raise Unusable("its CUDA provider did not start")
        return _Session(session, "CUDA device 0")


class WebGpu(Engine):
    title = "ONNX Runtime, WebGPU"
    _registered = False

    def version(self) -> str:
        ort = _onnxruntime()
        try:
            import onnxruntime_ep_webgpu  # noqa: F401
        except ImportError:
            raise NotInstalled("pip install onnxruntime-ep-webgpu") from None
        if not hasattr(ort, "register_execution_provider_library"):
            raise NotInstalled(f"onnxruntime {ort.__version__} is too old for the plug-in")
        from importlib.metadata import version

        return f"{version('onnxruntime-ep-webgpu')} in onnxruntime {ort.__version__}"

    def load(self, files: Files, precision: str) -> Session:
        ort = _onnxruntime()
        import onnxruntime_ep_webgpu as plugin

        if not WebGpu._registered:
            ort.register_execution_provider_library("webgpu", plugin.get_library_path())
            WebGpu._registered = True
        found = [d for d in ort.get_ep_devices() if d.ep_name == plugin.get_ep_name()]
        if not found:
            raise Unusable("its plug-in finds no GPU")
        options = ort.SessionOptions()
        options.add_provider_for_devices([found[0]], {})
        session = ort.InferenceSession(str(files.model(precision)), options)
        data = dict(found[0].device.metadata)
        return _Session(session, str(data.get("Description", data.get("device_id", "GPU"))))
