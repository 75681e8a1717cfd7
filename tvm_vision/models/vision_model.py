"""What every network that looks at frames has in common, whatever its results are."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from .. import vulkan
from ..error_lines import no_attribute
from ..errors import InputError
from ..package import ModelInfo, Package
from ..runtime.graph_executor import GraphExecutor
from ..runtime.inputs import output_specs
from ..runtime.loader import load
from ..runtime.recovery import Losses, Recovery
from .other_names import OF_MODELS
from .results import Timing, VisionResult
from .values import real_outputs

if TYPE_CHECKING:
    from ..runtime.sources import Frame

Image = npt.NDArray[np.uint8]
# A camera's usual frame; what the first call allocates and compiles is then in place.
WARM_UP_SHAPE = (480, 640, 3)
Model = TypeVar("Model", bound="VisionModel")
# What the stages of a frame hand on.
Prepared = TypeVar("Prepared")
Ran = TypeVar("Ran")
Source = str | os.PathLike[str] | int


def _flat(sources: Iterable[Source | Sequence[Source]]) -> Iterator[str]:
    """The sources as texts, those in lists too. Raises InputError for what is none."""
    for source in sources:
        if isinstance(source, (list, tuple)):
            yield from _flat(source)
        elif isinstance(source, (str, int, os.PathLike)):
            yield str(source)
        else:
            raise InputError(
                "a path, pattern, camera number or stream's address is needed, found "
                f"{type(source).__name__}: an image that is read already goes into network(image)"
            )


class OneThread:
    """Lets one thread at a time into a block. Raises InputError for another, at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise InputError(
                "a model serves one thread at a time, and was called while another thread was in "
                "it; load one for each thread, or take turns with a lock"
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class VisionModel:
    """A package on its device: frames in, results out; in one thread at a time.

    A call that begins while another thread's is running raises InputError.
    """

    def __init__(self, executor: GraphExecutor) -> None:
        """executor: what tvm_vision.load returns."""
        self._executor = executor
        self._model = ModelInfo.from_json(executor.info["model"])
        self._outputs = output_specs(executor.info)
        self._alone = OneThread()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} '{self.name}' on {self.device_description}>"

    if not TYPE_CHECKING:  # for which no name would be a wrong one

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(type(self).__name__, name, OF_MODELS)

    @classmethod
    def load(
        cls: type[Model],
        path: str | os.PathLike[str] | Package,
        device: str = "auto",
        target: str = "",
        verify: str | os.PathLike[str] | None = None,
        recovery: Recovery | None = None,
        **options: Any,
    ) -> Model:
        """A package, tar or folder, on its device, signed by a key (see ``tvm_vision.load``).

        options: of the class. Raises InputError where the package is not of this kind.
        """
        return cls(load(path, device, target, verify, recovery), **options)

    def __call__(self, image_bgr: Image) -> VisionResult:
        """The results for one frame, uint8 [height, width, 3] in BGR."""
        raise NotImplementedError

    def _in_stages(
        self,
        image_bgr: Image,
        prepare: Callable[[Image], Prepared],
        run: Callable[[], Ran],
        interpret: Callable[[Ran, Prepared], dict[str, Any]],
    ) -> VisionResult:
        """The result for one frame, with the time of each stage.

        interpret: parts of the result by name, of what the network gave and what ``prepare`` did.
        """
        # Both: the frame is prepared in memory that the next one overwrites.
        with self._alone:
            start = perf_counter()
            prepared = prepare(image_bgr)
            ready = perf_counter()
            outputs = run()
            done = perf_counter()
        found = interpret(outputs, prepared)
        end = perf_counter()
        return VisionResult(
            Timing(1e3 * (ready - start), 1e3 * (done - ready), 1e3 * (end - done)), **found
        )

    def stream(self, *sources: Source | Sequence[Source]) -> Iterator[tuple[Frame, VisionResult]]:
        """Each frame of some sources with its result, one after the other, read when asked for.

        sources: images, folders, patterns, videos, cameras by number, addresses of streams, or
        lists of these; see ``tvm_vision.runtime.sources.frames``, which says what cannot be read.
        Raises InputError for an array, which is a frame itself.

        for frame, result in network.stream("drive.mp4"):
            print(frame.name, result.describe())
        """
        from ..runtime.sources import frames

        for frame in frames(_flat(sources)):
            yield frame, self(frame.image)

    def real_outputs(self, outputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Outputs by name, float32 where the network's integers stand for real numbers."""
        return real_outputs(outputs, self._outputs)

    @property
    def kind(self) -> str:
        """Of the network, as its package says; ``load_model`` makes the class that is for it."""
        return self._model.kind

    @property
    def produces(self) -> tuple[str, ...]:
        """What its results have: detections, with masks, keypoints and oriented boxes;
        segmentation, classification, depth."""
        return self._model.produces

    @property
    def name(self) -> str:
        """Of the network, as its package says."""
        return self._model.name

    @property
    def class_names(self) -> tuple[str, ...]:
        """Of what is detected or classified; empty where the network does neither."""
        return self._model.labels

    @property
    def segmentation_names(self) -> tuple[str, ...]:
        """Of what pixels are told apart as; empty where they are not."""
        return ()

    @property
    def device_description(self) -> str:
        """One line for people that names the device and says when it is a CPU."""
        return self._executor.device_description

    @property
    def device_note(self) -> str:
        """One line where the package was made for another device than this one, with what that
        means and what to do; else ""."""
        return self._executor.device_note

    @property
    def losses(self) -> Losses:
        """What became of its device so far."""
        return self._executor.losses

    @property
    def device_name(self) -> str:
        """The device in a few words, for a caption: "NVIDIA H200 (discrete gpu)"."""
        device = self._executor.device
        if device.type == "cpu":
            return "CPU"
        return f"{vulkan.devices()[device.index].name} ({self.device_type})"

    @property
    def device_type(self) -> str:
        """One of "discrete gpu", "integrated gpu", "virtual gpu", "other", "cpu" (and lavapipe)."""
        device = self._executor.device
        if device.type == "cpu":
            return "cpu"
        kind = vulkan.devices()[device.index].type
        return kind if kind in ("cpu", "other") else f"{kind} gpu"

    @property
    def precision(self) -> str:
        """ "fp32" or "fp16": what it computes in."""
        return str(self._executor.info["precision"])

    @property
    def checksum(self) -> str:
        """SHA-256 of the package's content: the same for a tar and for the folder it unpacks to."""
        return str(self._executor.info["checksum"])

    def warm_up(self) -> None:
        """Run one black frame, so that the first real one does not wait for what comes once."""
        self(np.zeros(WARM_UP_SHAPE, np.uint8))
