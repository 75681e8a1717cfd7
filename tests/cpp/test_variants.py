"""Packages for several devices and processors: the variant that Python takes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import cv2
import numpy as np
import pytest

from support import fleets
from support.keys import make_keys
from support.runner import refused, run
from support.runner_networks import MODELS, package_of
from tvm_vision.errors import DeviceError, PackageError
from tvm_vision.models import load_model
from tvm_vision.package import PackageDevice, read_package, write_fleet
from tvm_vision.package.files import sign_package
from tvm_vision.package.signature import PrivateKey
from tvm_vision.runtime.variants import plan_variant

SMALL_TARGET = {
    "kind": "vulkan", "device_name": "Small", "max_threads_per_block": 64,
    "supports_int64": False, "supports_int8": True, "thread_warp_size": 64,
}  # fmt: skip


def test_a_package_for_several_devices(built, unpacked, tmp_path):
    """The variant for this machine is taken, or the one that is named, as in Python."""
    package = package_of(unpacked, MODELS["classifier"], tmp_path)
    image = tmp_path / "image.png"
    assert cv2.imwrite(str(image), np.full((9, 9, 3), 99, np.uint8))
    with read_package(package) as one, read_package(package) as other:
        # Of GPUs that this machine has not: it has less than the one, and all of the other, which
        # lavapipe comes after a processor for.
        target = {"kind": "vulkan", "device_name": "Big", "max_threads_per_block": 1 << 30}
        other.info = replace(one.info, target=target, device=PackageDevice("Big", ""))
        write_fleet(tmp_path / "big.tar", [("big", other)])
        small = {**SMALL_TARGET, "keys": ["vulkan", "gpu", "compute_units_8"]}
        device = PackageDevice("Small", "")
        with read_package(package) as third:
            third.info = replace(one.info, target=small, device=device)
            write_fleet(tmp_path / "team.tar", [("big", other), ("small", third), ("here", one)])
    single = run(built / "run_model", "t", package, image)
    keys = make_keys(tmp_path, "ours")
    lines = [line for line in single.stdout.splitlines() if "ms" not in line]
    sign_package(tmp_path / "team.tar", PrivateKey.read(keys[0]))
    for more in ((), ("--target", "here"), ("--verify", keys[1])):
        done = run(built / "run_model", "t", tmp_path / "team.tar", image, *more)
        assert done.returncode == 0, done.stderr
        found = [line for line in done.stdout.splitlines() if "ms" not in line]
        assert [line.replace("team.tar", "package.tar") for line in found] == lines
    for words, needed in (
        (("t", tmp_path / "team.tar", image, "--target", "none"), "is needed, found 'none'"),
        (("t", tmp_path / "big.tar", image), "a variant for this machine ("),
        (("t", tmp_path / "team.tar", image, "--device", "vulkan"), "on one device"),
        (("t", package, image, "--target", "big"), "leave the target out"),
        (("t", package, image, "--verify", keys[1]), "and the package has none: 'tvm-vision sign'"),
        (("t", package, image, "--verify", ""), "a public key is needed, and '' cannot be read"),
        (("t", package, image, "--verify", image), "a public Ed25519 key in PEM is needed"),
    ):  # fmt: skip
        assert needed in refused(built, *words)


def test_every_machine_takes_the_variant_that_it_takes_in_python(built, tmp_path, device_info):
    """Or refuses all of them in the same line."""
    teams, machines = fleets.fleets(device_info, 60), fleets.machines(device_info)
    (tmp_path / "table.json").write_text(fleets.table(teams, machines))
    done = run(built / "variants", tmp_path / "table.json")
    assert done.returncode == 0, done.stderr
    needed = []
    for fleet, here, wanted in itertools.product(teams, machines, fleets.WANTED):
        on = (here.processor, here.device, here.status, here.features)
        try:
            needed.append(plan_variant(fleet, wanted, *on).name)
        except DeviceError as error:
            needed.append(f"DeviceError: {error}")
    assert done.stdout.splitlines() == needed
    assert len(set(needed)) > 100


def test_code_for_a_processor_that_can_do_more_is_refused_as_in_python(built, unpacked, tmp_path):
    needs = ("fpu9000", "sse9000")
    package = package_of(unpacked, MODELS["classifier"], tmp_path, processor=needs)
    assert cv2.imwrite(str(tmp_path / "image.png"), np.zeros((9, 9, 3), np.uint8))
    with pytest.raises(PackageError, match="needs a processor with fpu9000, sse9000, which") as met:
        load_model(package)
    assert refused(built, "t", package, tmp_path / "image.png") == str(met.value)
