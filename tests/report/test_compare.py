"""Two profiles, layer by layer."""

from __future__ import annotations

import pytest

from tvm_vision.report.compare import compare_profiles, how_fast
from tvm_vision.report.profile_document import SavedKernel
from tvm_vision.report.profile_page import _moved


def kernels(*rows: tuple[str, float]) -> list[SavedKernel]:
    """Functions named f0, f1, …; nodes are separated by spaces."""
    return [
        SavedKernel(f"f{i}", tuple(nodes.split()), time) for i, (nodes, time) in enumerate(rows)
    ]


@pytest.mark.parametrize(
    ("now", "before", "wanted"),
    [
        # Fused otherwise: what is compared are the smallest groups of the same nodes.
        (
            kernels(("a b", 3.0), ("c", 5.0)),
            kernels(("a", 1.0), ("b c", 9.0)),
            [("a b c", 8.0, 10.0, "faster")],
        ),
        (
            kernels(("a", 1.0), ("a", 2.0), ("b", 1.0)),
            kernels(("b", 4.0), ("a", 1.0)),
            [("b", 1.0, 4.0, "faster"), ("a", 3.0, 1.0, "slower")],
        ),
        (kernels(("a", 100.0)), kernels(("a", 104.0)), [("a", 100.0, 104.0, "same")]),
        (
            kernels(("a", 1.0)),
            kernels(("b", 2.0)),
            [("b", 0.0, 2.0, "gone"), ("a", 1.0, 0.0, "new")],
        ),
        # Without nodes functions go by their name and turn.
        (kernels(("", 1.0)), kernels(("", 9.0)), [("f0", 1.0, 9.0, "faster")]),
        # The compiler's own steps are no layers: of one number, they are others'.
        (
            kernels(("pack_c16 a", 1.0), ("unpack_c16", 1.0)),
            kernels(("b pack_c16", 4.0), ("unpack_c16", 3.0)),
            [
                ("b pack_c16", 0.0, 4.0, "gone"),
                ("unpack_c16", 1.0, 3.0, "faster"),
                ("pack_c16 a", 1.0, 0.0, "new"),
            ],
        ),
        ([], [], []),
    ],
)
def test_changes(now: list, before: list, wanted: list) -> None:
    found = compare_profiles(now, before)
    assert [(" ".join(c.nodes), c.now_us, c.before_us, c.verdict) for c in found] == wanted
    layers = [verdict for name, *_, verdict in wanted if name != "unpack_c16"]
    apart = layers != [] and {"new", "gone"}.issuperset(layers)
    words = how_fast(found, 2.0, 5.0)
    assert words.startswith("no layer of one") if apart else words == "2.50 times as fast"
    assert sum(c.now_us for c in found) == pytest.approx(sum(k.median_us for k in now))
    assert sum(c.before_us for c in found) == pytest.approx(sum(k.median_us for k in before))
    assert sorted(i for c in found for i in c.now) == list(range(len(now)))


def test_a_layer_that_one_profile_has_not_has_no_time_there() -> None:
    found = compare_profiles(kernels(("a", 1.0)), kernels(("b", 2.0)))
    assert [_moved(change) for change in found] == ["2.0 µs → gone", "new → 1.0 µs"]
