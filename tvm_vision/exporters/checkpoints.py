"""Checkpoints of PyTorch: tensors alone are read, since Python objects can run code."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..plain_files import open_plain


def read_checkpoint(path: Path) -> Any:
    """What a checkpoint holds, with its tensors on the CPU. Raises InputError for other files."""
    import pickle

    import torch

    try:
        open_plain(path).close()
    except OSError as error:
        raise InputError(f"'{path}' cannot be read ({error.strerror}): check the path") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise InputError(
            f"'{path}' holds Python objects beside tensors, and they are not loaded, because that "
            "can run code: save the weights alone, torch.save(model.state_dict(), ...)"
        ) from None
    except Exception as error:  # an archive can be broken in every way, one an OSError
        reason = str(error).partition(". ")[0] or type(error).__name__
        raise InputError(
            f"'{path}' is no PyTorch checkpoint, or is damaged ({reason}): was it downloaded whole?"
        ) from None
