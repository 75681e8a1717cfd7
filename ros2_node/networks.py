"""The node's network: loaded, handed over from one to the next, and asked for by services.

Without ROS: what belongs to the node comes as callbacks, all of them for its executor's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tvm_vision.errors import TvmVisionError

from .changeover import Changeover
from .diagnostics import ModelFacts
from .model_loader import ModelLoader, ModelRequest, load_and_warm
from .pipeline import Log
from .reasons import one_line

Answer = Callable[[bool, str], object]


@dataclass(frozen=True)
class Host:
    """What networks need of the node.

    open: has the publishers for a network, or raises TvmVisionError. use: gives it the images.
    restore: puts the parameters back to what is in use. later: calls in the executor's thread.
    """

    open: Callable[[Any], object]
    use: Callable[[Any], object]
    restore: Callable[[ModelRequest], object]
    later: Callable[..., object]
    log: Log


class Networks:
    """The network in use and the next one. All methods are for the executor's thread."""

    def __init__(self, host: Host, load: Callable[[ModelRequest], Any] = load_and_warm) -> None:
        """load: makes a network of a request."""
        self._host = host
        self._load = load
        self._loader = ModelLoader(self._loaded, load)
        self._change = Changeover()
        self._waiting: list[Answer] = []
        self._facts = ModelFacts()
        self._model: Any = None

    @property
    def facts(self) -> ModelFacts:
        """What /diagnostics says of it."""
        facts = replace(self._facts, failure=self._facts.failure or self._change.failure)
        model = self._model
        if model is None or not model.losses.lost:
            return facts
        # Its device may be another by now.
        return replace(
            facts,
            losses=model.losses,
            device=model.device_description,
            device_type=model.device_type,
        )

    def configure(self, request: ModelRequest) -> bool:
        """Load it now; returns whether that went well. If not, log and facts say why."""
        try:
            model = self._load(request)
            self._host.open(model)
        except TvmVisionError as error:
            return self._cannot_configure(request, one_line(error))
        except Exception as error:
            # Nobody's fault that has a name; rclpy would pass over it without a word.
            problem = f"the network cannot be loaded ({one_line(error)})"
            return self._cannot_configure(request, problem)
        self._change.configured(request)
        self._adopt(request, model)
        return True

    def want(self, request: ModelRequest) -> None:
        """The parameters name a network, perhaps the same as before."""
        if self._change.wanted(request):
            self._loader.request(request)

    def load_again(self) -> None:
        """Load the one in use once more, where no load is under way."""
        request = self._change.again()
        if request is not None:
            self._loader.request(request)

    def ask(self, answer: Answer) -> None:
        """The service load_model: ``answer`` gets success and words, now or when it is loaded.

        Right after a network was refused the parameters name the old one again. To load that would
        be no answer to who asked for the other: the refusal is told until they are set anew.
        """
        if self._change.used is None:
            why = self._facts.failure and f" ({self._facts.failure})"
            answer(False, f"the node is not configured{why}: configure it, which loads the model")
        elif self._change.refused:
            answer(
                False,
                f"{self._facts.name} stays in use, for the new network failed: "
                f"{self._change.refused}; set the parameter model anew to load one",
            )
        else:
            self._waiting.append(answer)
            self.load_again()

    def release(self) -> None:
        """There is no network any more."""
        self._facts, self._model = ModelFacts(), None
        self._change.released()
        self._answer(False, "the node was cleaned up meanwhile")

    def close(self, timeout: float) -> None:
        """Load nothing any more, and wait for what is being loaded, for so many seconds."""
        self._loader.close(timeout)

    def _cannot_configure(self, request: ModelRequest, problem: str) -> bool:
        self._facts = ModelFacts(path=request.model, failure=problem)
        self._host.log.error(problem)
        return False

    def _loaded(self, request: ModelRequest, model: Any, problem: str) -> None:
        """In the loader's thread."""
        self._host.later(self._take_over, request, model, problem)

    def _take_over(self, request: ModelRequest, model: Any, problem: str) -> None:
        if model is not None and request == self._change.loading:
            try:
                self._host.open(model)
            except TvmVisionError as error:
                model, problem = None, one_line(error)
        if not self._change.ended(request, problem):
            return  # a newer request, or none any more
        if model is None:
            self._keep_old(problem)
            return
        self._adopt(request, model)
        self._answer(True, f"{model.name} on {model.device_description}")

    def _adopt(self, request: ModelRequest, model: Any) -> None:
        self._model = model
        self._facts = ModelFacts(
            path=request.model,
            name=model.name,
            checksum=model.checksum,
            device=model.device_description,
            device_type=model.device_type,
            note=model.device_note,
        )
        log = self._host.log
        log.info(f"{model.name} ({model.checksum[:12]}) on {model.device_description}")
        if model.device_type == "cpu":
            log.warning(f"{model.name} runs on a CPU, not on a GPU: {model.device_description}")
        self._host.use(model)

    def _keep_old(self, problem: str) -> None:
        self._host.log.error(f"{self._facts.name} stays in use: {problem}")
        self._answer(False, problem)
        assert self._change.used is not None
        self._host.restore(self._change.used)

    def _answer(self, success: bool, message: str) -> None:
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            answer(success, message)
