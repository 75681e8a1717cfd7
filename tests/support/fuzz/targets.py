"""What is fuzzed: readers of files, each with samples that are sound.

A reader takes any bytes, or refuses them by an error of ours of one line. Anything else is a fault.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from support import packages, yoeo_networks
from tvm_vision.errors import TvmVisionError

Read = Callable[[Path], object]


@dataclass(frozen=True)
class Target:
    """samples: makes the corpus. read: what is to stand it, of a file of this ending."""

    samples: Callable[[], list[bytes]]
    read: Callable[[], Read]
    suffix: str = ""

    def consume(self, data: bytes) -> bool:
        """Whether bytes are taken. Raises AssertionError for a refusal of more than one line, and
        whatever the reader raises that is no refusal."""
        path = _place() / f"sample{self.suffix}"
        path.write_bytes(data)
        try:
            _reader(self.read)(path)
        except TvmVisionError as error:
            assert len(str(error).splitlines()) == 1, error
            return False
        return True


@cache
def _reader(make: Callable[[], Read]) -> Read:
    return make()


@cache
def _place() -> Path:
    return Path(tempfile.mkdtemp(prefix="fuzz-"))


def _package_samples() -> list[bytes]:
    from tvm_vision.package.container import write_tar

    stream = io.BytesIO()
    write_tar(stream, packages.sample_members())
    return [stream.getvalue()]


def _read_package() -> Read:
    from tvm_vision.package import read_fleet, read_package

    def read(path: Path) -> None:
        if (fleet := read_fleet(path)) is not None:
            read_package(path, variant=fleet.names[0]).close()
        else:
            read_package(path).close()

    return read


def _read_info() -> Read:
    """Behind the checksum, which no change gets past."""
    from tvm_vision.package import PackageInfo

    return lambda path: PackageInfo.from_bytes(path.read_bytes(), edited=True).to_bytes()


def _read_params() -> Read:
    from tvm_vision.package.params import list_params

    def read(path: Path) -> None:
        with path.open("rb") as stream:
            list_params(stream)

    return read


def _read_signature() -> Read:
    from tvm_vision.package.signature import signer

    return lambda path: signer(path.read_bytes())


def _signature_samples() -> list[bytes]:
    signature, info, key, variant = (part * 32 for part in ("00ff", "a1", "b2", "c3"))
    text = (
        f'{{"ed25519": "{signature}", "format": "tvm_vision signature", "format_version": 1, '
        f'"info": "{info}", "key": "{key}", "variants": {{"renoir": "{variant}"}}}}\n'
    )
    return [text.encode()]


def _record_samples() -> list[bytes]:
    from support import tuning_world

    return [tuning_world.record().to_json().encode() + b"\n"]


def _read_records() -> Read:
    from tvm_vision.tuning.records import read_records

    return read_records


def _read_cache() -> Read:
    from tvm_vision.cache import files as kept_files

    def read(path: Path) -> None:
        """As an entry of a cache: whatever it holds, none is given that is damaged."""
        files = kept_files.KeptFiles(".", path.suffix, 1 << 20, 1 << 22)
        before = kept_files.environment.cache_folder
        kept_files.environment.cache_folder = lambda: str(path.parent)
        try:
            content = files.load(path.stem)
        finally:
            kept_files.environment.cache_folder = before
        # Comparing is traced, so that entries with a right checksum are found as well.
        assert content is None or path.read_bytes() == sha256(content).digest() + content

    return read


def _cache_samples() -> list[bytes]:
    return [sha256(b"what was kept").digest() + b"what was kept"]


def _onnx_samples() -> list[bytes]:
    from support.mutate_models import foreign_model, small_models

    models = [*small_models()[:4], foreign_model()]
    return [model.SerializeToString() for model in models]


def _read_onnx() -> Read:
    from tvm_vision.frontend.onnx.load import import_onnx

    return import_onnx


def _tflite_samples() -> list[bytes]:
    from support.tflite_models import convolution

    return [convolution()]


def _read_tflite() -> Read:
    from tvm_vision.frontend.tflite.load import tflite_to_onnx

    return tflite_to_onnx


def _read_cfg() -> Read:
    from tvm_vision.exporters.yoeo.config import parse_config

    return parse_config


def _read_weights() -> Read:
    from tvm_vision.exporters.yoeo.config import parse_config
    from tvm_vision.exporters.yoeo.weights import read_weights

    cfg = _place() / "network.cfg"
    cfg.write_text(yoeo_networks.CFG)
    config = parse_config(cfg)
    return lambda path: read_weights(config, path)


def _weights_samples() -> list[bytes]:
    return [bytes(range(20)) + bytes(4096)]


def _read_yaml() -> Read:
    from tvm_vision.exporters.yoeo.names import read_groups, read_names
    from tvm_vision_ros.model_folder import read_config

    def read(path: Path) -> None:
        """By all that read YAML; refused where all of them refuse."""
        refused = []
        for reader in (read_names, read_groups, read_config):
            try:
                reader(path)
            except TvmVisionError as error:
                assert len(str(error).splitlines()) == 1, error
                refused.append(error)
        if len(refused) == 3:
            raise refused[0]

    return read


def _yaml_samples() -> list[bytes]:
    return [
        b"detection:\n  classes: [ball, robot]\nsegmentation:\n  classes:\n    - field\n",
        b"detection:\n  - ball\nsegmentation: [background]\n",
        b"- group_classes: [ball, robot]\n  surrogate_class: 'ball'\n",
    ]


def _bag_samples(kind: str) -> list[bytes]:
    from support.ros.bags import small_bags

    return small_bags(kind)


def _read_bag() -> Read:
    """As far as it goes, and each message by itself, as ``bag`` and ``replay`` do."""
    from tvm_vision_ros.bag_reading import reading

    def read(path: Path) -> None:
        refused = None
        with reading(path) as bag:
            for connection, _, data in bag.messages(bag.connections):
                try:
                    bag.deserialize(data, connection.msgtype)
                except TvmVisionError as error:
                    assert len(str(error).splitlines()) == 1, error
                    refused = error
        if refused is not None:
            raise refused

    return read


def _picture_samples() -> list[bytes]:
    import cv2
    import numpy as np

    image = np.arange(108, dtype=np.uint8).reshape(6, 6, 3)
    depth = np.arange(36, dtype=np.uint16).reshape(6, 6)
    files = [cv2.imencode(*words)[1].tobytes() for words in (
        (".jpg", image), (".png", image), (".png", depth),
    )]  # fmt: skip
    return [*files[:2], bytes(12) + files[2]]


def _read_picture() -> Read:
    """As a camera's compressed image, and as a depth image of compressedDepth."""
    from tvm_vision_ros.compressed_depth import depth_from_compressed
    from tvm_vision_ros.images import image_from_compressed

    most = 1 << 20

    def read(path: Path) -> None:
        data, refused = path.read_bytes(), []
        for reader, form in (
            (image_from_compressed, "bgr8; jpeg compressed bgr8"),
            (depth_from_compressed, "16UC1; compressedDepth png"),
            (depth_from_compressed, "32FC1; compressedDepth png"),
        ):
            try:
                found = reader(SimpleNamespace(format=form, data=data), most)
                assert found.shape[0] * found.shape[1] <= most
            except TvmVisionError as error:
                assert len(str(error).splitlines()) == 1, error
                refused.append(error)
        if len(refused) == 3:
            raise refused[0]

    return read


TARGETS: dict[str, Target] = {
    "package": Target(_package_samples, _read_package, ".tar"),
    "info": Target(lambda: [packages.sealed(packages.sample_info())], _read_info, ".json"),
    "params": Target(lambda: [packages.params_bytes()], _read_params),
    "signature": Target(_signature_samples, _read_signature),
    "records": Target(_record_samples, _read_records, ".jsonl"),
    "cache": Target(_cache_samples, _read_cache, ".kept"),
    "onnx": Target(_onnx_samples, _read_onnx, ".onnx"),
    "tflite": Target(_tflite_samples, _read_tflite, ".tflite"),
    "cfg": Target(lambda: [yoeo_networks.CFG.encode()], _read_cfg, ".cfg"),
    "weights": Target(_weights_samples, _read_weights, ".weights"),
    "yaml": Target(_yaml_samples, _read_yaml, ".yaml"),
    "mcap": Target(lambda: _bag_samples("mcap"), _read_bag, ".mcap"),
    "db3": Target(lambda: _bag_samples("db3"), _read_bag, ".db3"),
    "picture": Target(_picture_samples, _read_picture),
}


def sound(name: str) -> list[Any]:
    """Of a target's samples whether each is taken."""
    return [TARGETS[name].consume(sample) for sample in TARGETS[name].samples()]
