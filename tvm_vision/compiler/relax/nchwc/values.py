"""What ``rewriter`` knows of a tensor: where its channels are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class NchwcTensor:
    """A tensor in blocks: the variable that holds it, and its shape (n, c, h, w) in the model."""

    var: Any
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Picked:
    """Channels of tensors in blocks, not yet gathered.

    Attributes:
        sources: the tensors.
        channels: (channels, 2), index of a source and the channel there.
        shape: in the model; five axes (n, a, b, h, w) in the middle of a shuffle of channels.
    """

    sources: tuple[NchwcTensor, ...]
    channels: np.ndarray
    shape: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """True for all channels of one tensor in their order."""
        count = self.sources[0].shape[1]
        return (
            len(self.sources) == 1
            and len(self.channels) == count
            and bool((self.channels[:, 1] == np.arange(count)).all())
        )
