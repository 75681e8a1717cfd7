"""Lines that subgroups touch, by kernels' GLSL."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.touched_lines import Unknown, main, touched


def kernel(body: str, grid: str = "4 x 1 x 1", workgroup: str = "64 x 1 x 1") -> str:
    return f"""
// grid {grid}, workgroup {workgroup}
layout(std430, set = 0, binding = 0) readonly buffer x_block {{ float16_t x[]; }};
layout(std430, set = 0, binding = 1) readonly buffer w_v4_block {{ uvec4 w_v4[]; }};
layout(std430, set = 0, binding = 2) writeonly buffer y_block {{ float y[]; }};
void main() {{
  const int blockIdx_x = int(gl_WorkGroupID.x);
  const int threadIdx_x = int(gl_LocalInvocationID.x);
{body}
}}
"""


@pytest.mark.parametrize(
    ("index", "lines", "fewest"),
    [
        ("threadIdx_x", 2, 2),
        ("threadIdx_x * 2", 4, 2),
        ("threadIdx_x * 64 + 3", 32, 2),
        ("threadIdx_x + 1", 3, 2),
        ("blockIdx_x * 64", 1, 1),
        ("(threadIdx_x >> 3) * 100", 4, 1),
        ("int(uint(threadIdx_x) / 8u) * 96 + threadIdx_x % 8", 4, 2),
        ("threadIdx_x < 16 ? threadIdx_x : 0", 1, 1),
        ("min(threadIdx_x, 15)", 1, 1),
        ("threadIdx_x & 15", 1, 1),
    ],
)
def test_what_a_subgroup_reads(index: str, lines: int, fewest: int) -> None:
    (access,) = touched(kernel(f"  y_own = x[{index}];")).accesses
    assert (access.lines, access.fewest, access.times) == (lines, fewest, 1)


def test_vectors_and_stores_count_by_their_bytes() -> None:
    read, written = touched(kernel("  y[threadIdx_x] = float(w_v4[threadIdx_x].x);")).accesses
    assert {(read.lines, read.fewest), (written.lines, written.fewest)} == {(16, 16), (4, 4)}


def test_loops_count_as_often_as_they_turn() -> None:
    body = """
  for (int i = 0; i < 3; ++i) {
    const int at = i * 64 + threadIdx_x;
    for (int j = 0; j < 10; j += 2) {
      a = x[at + j];
    }
    for (int k = 0; k < n[0]; ++k) {
      b = x[k];
      c = x[at];
    }
  }
  d = x[threadIdx_x];
"""
    found = touched(kernel(body))
    assert [each.times for each in found.accesses] == [15, 3, 1]  # where k begins nobody knows
    assert found.subgroups == 8 and found.lines == 8 * 2 * (15 + 3 + 1)


def test_what_data_decides_is_left_out() -> None:
    assert touched(kernel("  const int at = int(x[threadIdx_x]);\n  b = x[at];")).accesses[1:] == ()
    with pytest.raises(Unknown, match="grid"):
        touched("void main() {}")


def test_kernels_of_a_package_are_listed(tmp_path: Path) -> None:
    words = ["--target", "lavapipe", "--only", "sine of a million", "--least", "0"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "sine of a million" in done.output and "tir_sin" in done.output
