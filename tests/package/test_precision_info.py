"""What mod.json says of measured fp16: read back, shown, and refused where it is wrong."""

import pytest

from support import packages
from tvm_vision.errors import PackageError
from tvm_vision.package import Fp32Layer, MeasuredPrecision, PackageInfo

LAYER = {
    "nodes": ["conv", "relu"],
    "weights": True,
    "result": False,
    "error": 0.25,
    "largest": None,
}
MEASURED = {
    "samples": 9,
    "limit": 0.01,
    "error_before": 0.5,
    "error": 0.004,
    "layers": 7,
    "kept": [LAYER],
}


def document(**changes):
    info = packages.sample_info()
    measured = {**MEASURED, **changes}
    return {**info, "precision": "fp16", "measured_precision": measured}


def test_it_is_read_and_written_as_it_was():
    info = PackageInfo.from_json(document())
    assert info.measured_precision == MeasuredPrecision(
        9, 0.01, 0.5, 0.004, 7, (Fp32Layer(("conv", "relu"), True, False, 0.25),)
    )
    assert PackageInfo.from_bytes(info.to_bytes()) == info
    assert str(info.measured_precision) == (
        "1 of 7 layers keep float32; error on 9 samples 4.0e-03, with fp16 everywhere 5.0e-01, "
        "allowed 0.01"
    )
    unknown = PackageInfo.from_json(document(error_before=None, samples=1)).measured_precision
    assert "on 1 sample 4.0e-03, with fp16 everywhere no numbers" in str(unknown)


def test_packages_without_it_say_so():
    info = PackageInfo.from_json(packages.sample_info())
    assert info.measured_precision is None and info.to_json()["measured_precision"] is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"samples": 0}, "measured_precision.samples must be a whole number from 1"),
        ({"limit": 0}, "measured_precision.limit must be above 0"),
        ({"error": None}, "measured_precision.error must be a number"),
        ({"error": -1.0}, "measured_precision.error must be 0 or more"),
        ({"layers": 0}, "measured_precision.kept must be at most 0 layers, found 1"),
        ({"kept": [{**LAYER, "weights": False}]}, r"kept\[0\] must be a layer with nodes"),
        ({"kept": [{**LAYER, "nodes": []}]}, r"kept\[0\] must be a layer with nodes"),
        ({"kept": [{**LAYER, "why": "so"}]}, r"kept\[0\].why is not known"),
    ],
)
def test_what_it_cannot_say(changes, words):
    with pytest.raises(PackageError, match=words):
        PackageInfo.from_json(document(**changes))


def test_it_is_for_halves():
    with pytest.raises(PackageError, match='in packages of precision fp16, found "fp32"'):
        PackageInfo.from_json({**document(), "precision": "fp32"})
