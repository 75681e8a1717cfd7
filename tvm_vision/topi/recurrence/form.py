"""What a recurrent layer computes, and how its kernel goes through the sequences.

Names and the order of gates are those of ONNX's operators LSTM-22, GRU-22 and RNN-22.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from ..forms import TextForm

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
MOST_KEPT = 192  # weights that a thread of a GPU has registers for, where it has the most


@dataclass(frozen=True)
class Activation:
    """A function of gates by ONNX's name, with alpha and beta, which not all of them read."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0

    def of(self, x: Any) -> Any:
        """The value for a number."""

        def number(value: float) -> Any:
            return tirx.const(value, str(x.ty.dtype))

        zero, one = number(0.0), number(1.0)
        alpha, beta = number(self.alpha), number(self.beta)
        forms: dict[str, Callable[[], Any]] = {
            "Relu": lambda: tirx.max(x, zero),
            "Sigmoid": lambda: tirx.sigmoid(x),
            "Tanh": lambda: tirx.tanh(x),
            "HardSigmoid": lambda: tirx.max(zero, tirx.min(one, alpha * x + beta)),
            "LeakyRelu": lambda: tirx.Select(x < zero, alpha * x, x),
            "ThresholdedRelu": lambda: tirx.Select(x > alpha, x, zero),
            "Elu": lambda: tirx.Select(x < zero, alpha * (tirx.exp(x) - one), x),
            "Affine": lambda: alpha * x + beta,
            "ScaledTanh": lambda: alpha * tirx.tanh(beta * x),
            "Softsign": lambda: x / (one + tirx.abs(x)),
            # As the larger of 0 and x, and what is never large.
            "Softplus": lambda: tirx.max(x, zero) + tirx.log(one + tirx.exp(-tirx.abs(x))),
        }
        return forms[self.name]()


@dataclass(frozen=True)
class RecurrentForm(TextForm):
    """What a recurrent layer computes.

    Attributes:
        operator: LSTM, GRU or RNN.
        ways: 1 for a direction from the first step on, -1 for one from the last.
        functions: what ONNX calls f, g and h, as many as the operator has.
        clip: gates are bounded to ±clip before a function; 0 for not at all.
        coupled: an LSTM's forget gate is 1 less its input gate.
        reset_after: a GRU's reset gate is multiplied with the product of state and weights, rather
            than with the state.
        biased: reset_after, and that product has a bias.
        peepholes: gates of an LSTM see its cells.
        ended: sequences have lengths of their own.
    """

    operator: str
    ways: tuple[int, ...]
    functions: tuple[Activation, ...]
    clip: float = 0.0
    coupled: bool = False
    reset_after: bool = False
    biased: bool = False
    peepholes: bool = False
    ended: bool = False

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> RecurrentForm:
        """Of its functions' own values."""
        functions = tuple(Activation(**function) for function in values["functions"])
        return cls(**{**values, "functions": functions})

    @property
    def gates(self) -> int:
        """Values that a step adds up for each number of a state."""
        return GATES[self.operator]

    @property
    def states(self) -> int:
        """What goes from step to step: outputs, and an LSTM's cells."""
        return 2 if self.operator == "LSTM" else 1

    @property
    def products(self) -> tuple[int, ...]:
        """The gates of each product of a step, one after the other: a GRU that resets its state
        before the last gate's product has two."""
        return (2, 1) if self.operator == "GRU" and not self.reset_after else (self.gates,)


@dataclass(frozen=True)
class RecurrentTile:
    """How a task goes through its sequences.

    Attributes:
        threads: of a workgroup; 1 on a processor.
        sequences: of a task.
        slices: groups of a workgroup's threads that share the terms of a product's sums.
        vector: weights of a column that a thread of a GPU fetches at once.
        numbers: of a state, that a workgroup of a GPU computes where each step is a launch of its
            own; 0 where a workgroup goes through all steps.
        kept: weights that a thread of a GPU has registers for.
        rows, lanes, vectors: of a processor: a product's results that stay in registers, rows of
            sequences times vectors of lanes.
    """

    threads: int
    sequences: int
    slices: int = 1
    vector: int = 1
    numbers: int = 0
    kept: int = MOST_KEPT
    rows: int = 1
    lanes: int = 1
    vectors: int = 1

    @property
    def width(self) -> int:
        """Columns of weights beside one another in memory of a processor."""
        return self.lanes * self.vectors

    def keeps_weights(self, form: RecurrentForm, size: int) -> bool:
        """Whether a thread of a GPU has registers for its weights of all steps."""
        return sum(form.products) * size // self.slices <= self.kept

    def shared_numbers(self, form: RecurrentForm, size: int) -> int:
        """Numbers of a workgroup in shared memory: states, and the sums of its slices."""
        sums = self.threads * max(form.products) if self.slices > 1 else 0
        return self.sequences * (size + sums)
