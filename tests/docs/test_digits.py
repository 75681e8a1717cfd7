"""The network of scripts/digits.py, without the digits: what was fitted is what is computed."""

from __future__ import annotations

import numpy as np

from support.scripts import load_script
from tvm_vision.evaluate import Reference

script = load_script("scripts/digits.py")


def test_the_network_computes_what_was_fitted() -> None:
    random = np.random.default_rng(2)
    labels = np.arange(200) % 10
    # A bar at another place for each digit, and noise.
    images = 0.2 * random.random((200, 8, 8))
    images[np.arange(200), labels % 8] += labels[:, None] // 8 + 0.5
    images = images.astype(np.float32)
    model = script.fitted(images, labels)
    constants = {w.name: script.numpy_helper.to_array(w) for w in model.graph.initializer}
    wanted = script.features(images, constants["filters"]) @ constants["weights"]
    wanted += constants["bias"]
    reference = Reference(model)
    for image, scores in list(zip(images, wanted, strict=True))[:20]:
        (found,) = reference.run({"image": np.stack([image] * 3)[None]}).values()
        np.testing.assert_allclose(found[0], scores, atol=1e-4)
    assert (wanted.argmax(axis=1) == labels).mean() > 0.95
