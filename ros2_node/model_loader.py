"""Loads networks beside the one in use: the new one is warm before anybody counts on it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .model_folder import ModelSource, RenamedModel, find_model
from .reasons import one_line


@dataclass(frozen=True)
class ModelRequest:
    """The value of the parameter ``model``, with the device and the options of the network.

    Each field is a parameter of the node, which sets them back where a network is refused.
    """

    model: str
    device: str = "auto"
    top: int = 5
    verify_key: str = ""
    frame_timeout: float = 0.0
    rebuilds_per_minute: int = 6
    fallback: str = ""


def load_and_warm(request: ModelRequest, target: str = "") -> Any:
    """The network of a request, after a first run on a black image.

    target: of a package for several devices the variant; "" for that for this machine.

    Raises TvmVisionError (PackageError, DeviceError, InputError) with what to do.
    """
    source = find_model(request.model)
    model = _load(source, request, target)
    if source.detection is not None or source.segmentation is not None:
        model = RenamedModel(model, source)
    model.warm_up()
    return model


def _load(source: ModelSource, request: ModelRequest, target: str) -> Any:
    # Takes most of a second: not before it is needed.
    from tvm_vision.models import load_model
    from tvm_vision.runtime.recovery import Recovery

    recovery = Recovery(
        frame_timeout=request.frame_timeout,
        rebuilds_per_minute=request.rebuilds_per_minute,
        fallback=request.fallback,
    )
    # A "~" is known here as it is in the parameter model.
    keys = Path(request.verify_key).expanduser() if request.verify_key else None
    return load_model(source.package, request.device, target, keys, recovery, top=request.top)


Loaded = Callable[[ModelRequest, Any, str], object]


class ModelLoader:
    """Loads in a thread of its own; of several requests that wait, the newest counts."""

    def __init__(self, loaded: Loaded, load: Callable[[ModelRequest], Any] = load_and_warm) -> None:
        """loaded: gets the request with the network and "", or with None and what went wrong.

        It is called in the loader's thread.
        """
        self._loaded = loaded
        self._load = load
        self._lock = threading.Lock()
        self._next: ModelRequest | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def request(self, request: ModelRequest) -> None:
        """Load this next; returns at once."""
        with self._lock:
            if self._closed:
                return
            self._next = request
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="loader", daemon=True)
                self._thread.start()

    def close(self, timeout: float | None = None) -> bool:
        """Let go of what waits and wait for what is being loaded; False if it takes too long."""
        with self._lock:
            self._closed = True
            self._next = None
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
            return not thread.is_alive()
        return True

    def _run(self) -> None:
        while True:
            with self._lock:
                request, self._next = self._next, None
                if request is None:
                    self._thread = None
                    return
            model, problem = None, ""
            try:
                model = self._load(request)
            except Exception as error:
                problem = one_line(error)
            if not self._closed:
                self._loaded(request, model, problem)
            del model
