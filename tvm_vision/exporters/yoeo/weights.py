"""A YOEO network's weights from its files, and into the network in PyTorch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InputError
from ...file_kinds import CHECKPOINT, EMPTY, ZIP, need
from ...plain_files import open_plain
from ..checkpoints import read_checkpoint
from .config import YoeoConfig
from .darknet import read_darknet, write_darknet
from .parameters import PREFIX, State, check_state, config_anchors

if TYPE_CHECKING:
    from .network import Yoeo

PathLike = str | os.PathLike[str]
# A zip archive, and a pickle as PyTorch before 1.6 wrote it.
TORCH_MAGIC = (b"PK\x03\x04", b"\x80")
TORCH_SUFFIXES = (".pth", ".pt", ".ckpt")
# Where training scripts put the weights beside other things.
WRAPPERS = ("state_dict", "model", "model_state_dict")
COUNTER = ".num_batches_tracked"


def read_weights(config: YoeoConfig, path: PathLike) -> State:
    """Every array of the network by its name, from a PyTorch checkpoint or Darknet's .weights.

    A checkpoint is read with ``weights_only``: no code in it runs. Its weights may lie under a name
    of WRAPPERS, and their names may have something before "module_list". Anchors that the file
    holds count, as in YOEO; else the configuration's do.

    Raises InputError where the file is none of the two, is damaged, or belongs to another network,
    naming the layer; and where PyTorch is needed and not installed.
    """
    file = Path(path)
    need(file, "a PyTorch checkpoint or Darknet's .weights", CHECKPOINT, ZIP, EMPTY)
    try:
        with open_plain(file) as stream:
            start = stream.read(4)
    except OSError as error:
        raise InputError(f"'{file}' cannot be read ({error.strerror}): check the path") from None
    if start.startswith(TORCH_MAGIC):
        state = _checkpoint(file)
    elif file.suffix in TORCH_SUFFIXES:
        raise InputError(
            f"'{file}' must be a PyTorch checkpoint, and does not begin like one: was it "
            "downloaded whole?"
        )
    else:
        state = read_darknet(config, file)
    state = _with_anchors(config, state)
    check_state(config, state)
    return state


def load_weights(model: Yoeo, path: PathLike) -> None:
    """Set the weights of a network, from a file as ``read_weights`` takes it; raises the same."""
    set_state(model, read_weights(model.config, path))


def set_state(model: Yoeo, state: State) -> None:
    """Set the weights of a network. Raises InputError, naming the layer, where one is not its."""
    import torch

    check_state(model.config, state)
    own = model.state_dict()
    with torch.no_grad():
        for name, array in state.items():
            own[name].copy_(torch.from_numpy(array))


def state_of(model: Yoeo) -> State:
    """The weights of a network as arrays, checked."""
    state = _arrays(model.state_dict())
    check_state(model.config, state)
    return state


def save_darknet_weights(model: Yoeo, path: PathLike, *, seen: int = 0) -> None:
    """Write a network as Darknet's .weights; the format does not hold anchors.

    seen: images that it was trained on. Raises InputError where it cannot be written.
    """
    write_darknet(model.config, state_of(model), Path(path), seen=seen)


def _checkpoint(path: Path) -> State:
    try:
        content = read_checkpoint(path)
    except ImportError:
        raise InputError(
            f"'{path}' is a PyTorch checkpoint, and PyTorch is not installed: "
            "pip install 'tvm_vision[export]', or give Darknet's .weights, which need none"
        ) from None
    return _arrays(_named(content, path))


def _named(content: Any, path: Path) -> dict[str, Any]:
    """The tensors of one network, under names that begin with PREFIX."""
    candidates = [content]
    if isinstance(content, Mapping):
        candidates += [content[key] for key in WRAPPERS if isinstance(content.get(key), Mapping)]
    for candidate in candidates:
        if not isinstance(candidate, Mapping):
            continue
        names = [name for name in candidate if isinstance(name, str) and PREFIX in name]
        before = sorted({name.partition(PREFIX)[0] for name in names})
        if len(before) > 1:
            raise InputError(
                f"'{path}' must hold one network, found the names {before[0]}{PREFIX}* and "
                f"{before[1]}{PREFIX}*: save one of them alone"
            )
        if names:
            return {name.removeprefix(before[0]): candidate[name] for name in names}
    found = [str(key) for key in content][:3] if isinstance(content, Mapping) else None
    raise InputError(
        f"'{path}' must hold weights named {PREFIX}*, on top or under {', '.join(WRAPPERS)}; found "
        + (f"{', '.join(found) or 'nothing'}" if found is not None else type(content).__name__)
    )


def _arrays(tensors: Mapping[str, Any]) -> State:
    weights = {name: value for name, value in tensors.items() if not name.endswith(COUNTER)}
    for name, value in weights.items():
        if not hasattr(value, "detach"):
            raise InputError(f"'{name}' must be a tensor, found {type(value).__name__}")
    return {name: value.detach().cpu().float().numpy() for name, value in weights.items()}


def _with_anchors(config: YoeoConfig, state: State) -> State:
    """With the configuration's anchors where there are none; ``anchor_grid`` is what counts."""
    complete = dict(state)
    for name, array in config_anchors(config).items():
        if name.endswith(".anchor_grid"):
            table = state.get(name.replace(".anchor_grid", ".anchors"))
            if table is not None and table.size == array.size:
                array = np.asarray(table, np.float32).reshape(array.shape)
        complete.setdefault(name, array)
    return complete
