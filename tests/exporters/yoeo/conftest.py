"""A network of each configuration with random weights, and what the reference makes of it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from support.reference_network import Numbers, Result, random_weights, run
from support.yoeo_cfgs import CFGS
from tvm_vision.exporters.yoeo.config import YoeoConfig, parse_config

SEED = 4
SQUARE = 8
# Logits that are closer than this may be ranked either way.
TIE = 1e-3


@dataclass(frozen=True)
class Case:
    """cfg, weights: files. image: float32 [1, channels, height, width]."""

    config: YoeoConfig
    cfg: Path
    weights: Path
    image: np.ndarray
    expected: Result

    def check(self, outputs, *, tolerance=1e-4):
        """Outputs by name against the reference; ``tolerance``: of scores, and relative of pixels.

        Raises AssertionError.
        """
        heads = [name for name in outputs if name.startswith("Head")]
        for index, name in enumerate(sorted(heads)):
            assert outputs[name].dtype == np.float32
            np.testing.assert_allclose(
                outputs[name][0], self.expected.heads[index], rtol=tolerance, atol=tolerance
            )
        if "Detections" in outputs:
            boxes = outputs["Detections"]
            assert (boxes.dtype, boxes.shape[0]) == (np.float32, 1)
            np.testing.assert_allclose(
                boxes[0], np.array(self.expected.boxes), rtol=tolerance, atol=tolerance
            )
        assert bool("Detections" in outputs or heads) == bool(self.expected.boxes)
        assert ("Segmentations" in outputs) == (self.expected.logits is not None)
        if self.expected.logits is not None:
            mask = outputs["Segmentations"]
            best = self.expected.logits.argmax(0)
            two = np.sort(self.expected.logits, 0)[-2:]
            clear = two[1] - two[0] > TIE
            assert (mask.dtype, mask.shape) == (np.uint8, (1, *best.shape))
            assert clear.mean() > 0.99
            np.testing.assert_array_equal(mask[0][clear], best[clear])


def make_case(name, folder):
    text = CFGS[name]
    cfg, weights = folder / f"{name}.cfg", folder / f"{name}.weights"
    cfg.write_text(text)
    weights.write_bytes(random_weights(text, SEED))
    config = parse_config(cfg)
    # Squares of black and white, so that what the layers see differs from place to place.
    squares = (1, config.channels, config.height // SQUARE, config.width // SQUARE)
    image = np.random.default_rng(SEED).integers(0, 2, squares).astype(np.float32)
    image = image.repeat(SQUARE, 2).repeat(SQUARE, 3)
    expected = run(text, image[0], Numbers(weights.read_bytes()))
    return Case(config, cfg, weights, image, expected)


@pytest.fixture(scope="session", params=CFGS)
def case(request, tmp_path_factory):
    """Each network in turn; nobody writes to its files."""
    return make_case(request.param, tmp_path_factory.mktemp("yoeo"))


@pytest.fixture(scope="session")
def leaky(tmp_path_factory):
    """The network of two heads and a mask."""
    return make_case("leaky", tmp_path_factory.mktemp("yoeo"))


@pytest.fixture(scope="session")
def torch():
    return pytest.importorskip("torch", reason="the extra 'export' (torch) is not installed")
