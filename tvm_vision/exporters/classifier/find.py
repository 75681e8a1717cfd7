"""Classifiers in PyTorch by name: of a module of one's own, of timm or of torchvision."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...error_lines import first_line
from ...errors import InputError
from ...file_kinds import CHECKPOINT, EMPTY, ZIP, need
from ...package import Preprocessing
from ..checkpoints import read_checkpoint

# Where training scripts put the weights beside other things.
WRAPPERS = ("state_dict", "model", "model_state_dict")


@dataclass(frozen=True)
class FoundNetwork:
    """network: torch.nn.Module in evaluation mode. preprocessing, labels: as far as its library
    knows them; its size is that of the images it was trained on."""

    network: Any
    preprocessing: Preprocessing | None = None
    labels: tuple[str, ...] = ()


def find_network(name: str, weights: Path | None = None) -> FoundNetwork:
    """A network by "module:callable", or by its name in timm or else in torchvision.

    The callable is called without arguments; modules of the current folder are found. weights: a
    checkpoint, read with ``weights_only``; without one a named network comes with its library's
    weights, which are downloaded, and a callable's stays as it is.

    Raises InputError saying what was not found, is not installed or does not fit.
    """
    try:
        import torch
    except ImportError:
        raise InputError(
            "PyTorch is needed to export its classifiers, and it is not installed: "
            "pip install 'tvm_vision[export]'"
        ) from None
    found = _of_module(name) if ":" in name else _of_library(name, pretrained=weights is None)
    if not isinstance(found.network, torch.nn.Module):
        raise InputError(
            f"'{name}' must make a torch.nn.Module, and made a {type(found.network).__name__}"
        )
    if weights is not None:
        _load(found.network, weights)
    found.network.eval()
    return found


def _of_module(name: str) -> FoundNetwork:
    module_name, _, attribute = name.partition(":")
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        target: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            target = getattr(target, part)
        return FoundNetwork(target())
    except Exception as error:  # it is the user's own code that runs here
        raise InputError(
            f"'{name}' must name a callable that takes no arguments and makes the network: "
            f"{type(error).__name__}: {first_line(error)}"
        ) from None


def _of_library(name: str, *, pretrained: bool) -> FoundNetwork:
    missing = []
    for library, make in (("timm", _of_timm), ("torchvision", _of_torchvision)):
        try:
            module = importlib.import_module(library)
        except ImportError:
            missing.append(library)
            continue
        except Exception as error:  # a torchvision of another build than torch's raises this
            raise InputError(
                f"{library} is installed and cannot be imported ({first_line(error)}): install the "
                "build that fits torch's"
            ) from None
        try:
            found = make(module, name, pretrained)
        except Exception as error:  # downloads fail in every way
            raise InputError(f"{library} cannot make '{name}': {first_line(error)}") from None
        if found is not None:
            return found
    raise InputError(
        f"a network of timm, of torchvision or module:callable is needed, found '{name}'"
        + (f" ({' and '.join(missing)} not installed: pip install {missing[0]})" if missing else "")
    )


def _of_timm(timm: Any, name: str, pretrained: bool) -> FoundNetwork | None:
    if not timm.is_model(name):
        return None
    network = timm.create_model(name, pretrained=pretrained)
    config = network.pretrained_cfg
    return FoundNetwork(
        network,
        _preparation(
            tuple(config["input_size"][1:]), config["crop_pct"], config["mean"], config["std"]
        ),
    )


def _of_torchvision(torchvision: Any, name: str, pretrained: bool) -> FoundNetwork | None:
    models = torchvision.models
    if name not in models.list_models():
        return None
    weights = models.get_model_weights(name).DEFAULT
    network = models.get_model(name, weights=weights if pretrained else None)
    transforms = weights.transforms()
    size, larger = transforms.crop_size[0], transforms.resize_size[0]
    preparation = _preparation((size, size), size / larger, transforms.mean, transforms.std)
    # The categories are those of the library's weights; other weights may have others.
    return FoundNetwork(
        network, preparation, tuple(weights.meta["categories"]) if pretrained else ()
    )


def _preparation(size: tuple[int, ...], crop: float, mean: Any, std: Any) -> Preprocessing:
    """Numbers of a library, for pixels in 0..1, as ours. "area" shrinks as their filters do, which
    average; OpenCV's "linear" and "cubic" would not."""
    return Preprocessing(
        size=(size[0], size[1]),
        crop=min(1.0, float(crop)),
        mean=tuple(255.0 * float(value) for value in mean),
        std=tuple(255.0 * float(value) for value in std),
    )


def _load(network: Any, path: Path) -> None:
    need(path, "a PyTorch checkpoint", CHECKPOINT, ZIP, EMPTY)
    content = read_checkpoint(path)
    state = content if isinstance(content, dict) else {}
    for key in WRAPPERS:
        if isinstance(state.get(key), dict):
            state = state[key]
    if state and all(str(name).startswith("module.") for name in state):
        state = {name.removeprefix("module."): value for name, value in state.items()}
    own = network.state_dict()
    for name, value in own.items():
        found = state.get(name)
        if found is None or tuple(found.shape) != tuple(value.shape):
            shown = "none" if found is None else list(found.shape)
            raise InputError(
                f"'{path}' must have '{name}' of shape {list(value.shape)}, and has {shown}: are "
                "the weights of this network?"
            )
    unknown = sorted(set(map(str, state)) - set(own))
    if unknown:
        raise InputError(f"'{path}' has '{unknown[0]}', for which the network has no place")
    network.load_state_dict(state)
