"""Charts: what stands in them stays apart, and inside."""

from __future__ import annotations

import re

import pytest

from tvm_vision.report.charts import Spot, scatter


@pytest.mark.parametrize("x", [[1.0, 1.02, 1.04], [1.0, 1.0, 1.0], [0.2, 0.9, 0.97, 1.0]])
def test_names_lie_on_no_name_and_on_no_spot(x: list[float]) -> None:
    drawn = scatter([Spot(at, 0.5, f"llvm fp32 O{i}", "", str(i)) for i, at in enumerate(x)],
                    "ms", "AP", "about")  # fmt: skip
    spots = [tuple(map(float, m)) for m in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', drawn)]
    names = re.findall(r'class="start name" x="([\d.]+)" y="([\d.]+)">([^<]+)', drawn)
    boxes = [(float(a), float(b) - 4, float(a) + 7 * len(c)) for a, b, c in names]
    for index, (begin, middle, end) in enumerate(boxes):
        for at, height in spots:
            assert not (begin < at + 7 and at - 7 < end and abs(middle - height) < 11)
        for other in boxes[:index]:
            assert not (begin < other[2] and other[0] < end and abs(middle - other[1]) < 11)
