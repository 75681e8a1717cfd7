"""A wave followed through programs written by hand: loops, waits, branches on lanes and others."""

from __future__ import annotations

import pytest

from tvm_vision.offline import machines
from tvm_vision.offline.assembly import Kind, parse
from tvm_vision.offline.scalars import Scalars
from tvm_vision.offline.walk import Walked, mix, walk

GCN, RDNA3 = machines.find("renoir"), machines.find("phoenix")
LOOP = """
    s_mov_b32 s0, 0
BB1:
    v_mac_f32_e32 v0, v1, v2
    s_add_u32 s0, s0, 1
    s_cmp_lt_i32 s0, {count}
    s_cbranch_scc1 BB1
    s_endpgm
"""


def follow(text: str, machine: machines.Machine = GCN) -> Walked:
    return walk(parse(text), machine, 64)


@pytest.mark.parametrize("count", [1, 7, 1000])
def test_a_loop_is_counted(count: int) -> None:
    walked = follow(LOOP.format(count=count))
    assert walked.runs[1] == count and walked.unknown == 0
    counts = mix(parse(LOOP.format(count=count)), walked)
    assert counts["fp32 multiply-adds"] == counts[Kind.VECTOR.value] == count
    # Four instructions of four cycles, the jump back, and the first and last instruction.
    assert walked.cycles == 16 * count + 12 * (count - 1) + 8


def test_a_loop_that_counts_down_on_a_mask() -> None:
    walked = follow(
        """
    s_movk_i32 s4, 0x5
BB1:
    v_mov_b32_e32 v0, v1
    s_sub_u32 s4, s4, 1
    s_cmp_eq_u32 s4, 0
    s_cselect_b64 vcc, -1, 0
    s_andn2_b64 vcc, exec, vcc
    s_cbranch_vccnz BB1
    s_endpgm
"""
    )
    assert walked.runs[1] == 5 and walked.unknown == 0


def test_a_branch_on_lanes_is_not_taken_and_a_loop_without_known_end_is_counted() -> None:
    walked = follow(
        """
    v_cmp_gt_i32_e32 vcc, 49, v2
    s_and_saveexec_b64 s[0:1], vcc
    s_cbranch_execz BB2
    buffer_load_dword v1, v0, s[4:7], 0 offen
BB2:
    s_load_dword s2, s[4:5], 0x0
    s_waitcnt lgkmcnt(0)
    s_cmp_lg_u32 s2, 0
    s_cbranch_scc1 BB2
    s_endpgm
"""
    )
    assert walked.runs[3] == 1 and walked.runs[4] == 1 and walked.unknown == 1


def test_a_branch_on_the_workgroups_number_falls_through() -> None:
    walked = follow(
        """
    s_cmp_lg_i32 s8, 0
    s_cbranch_scc0 BB1
    v_mov_b32_e32 v0, v1
BB1:
    s_endpgm
"""
    )
    assert walked.runs[2] == 1 and walked.unknown == 0


def test_waits_for_loads() -> None:
    text = """
    buffer_load_dword v1, v0, s[4:7], 0 offen
    buffer_load_dword v2, v0, s[4:7], 0 offen
    s_waitcnt vmcnt(1)
    s_waitcnt vmcnt(0)
    s_waitcnt vmcnt(0)
    s_endpgm
"""
    walked = follow(text)
    assert walked.clauses == [2, 1]
    # Both wait together: the second load arrives four cycles after the first.
    assert walked.cycles == pytest.approx(4 + 600 + 4 + 4 + 4, abs=8)
    assert walked.waited == pytest.approx(600, abs=10)


def test_stores_are_waited_for_where_they_are_counted() -> None:
    text = """
    buffer_store_dword v1, v0, s[4:7], 0 offen
    {wait}
    s_endpgm
"""
    assert follow(text.format(wait="s_waitcnt vmcnt(0)")).waited > 50
    assert follow(text.format(wait="s_waitcnt vmcnt(0)"), RDNA3).waited == 0
    assert follow(text.format(wait="s_waitcnt_vscnt null, 0x0"), RDNA3).waited > 50


def test_shared_memory_serves_one_after_the_other() -> None:
    loads = "    ds_read_b128 v[0:3], v8\n" * 40
    walked = follow(loads + "    s_waitcnt lgkmcnt(0)\n    s_endpgm\n")
    # 64 lanes of 16 bytes at 128 bytes a cycle are 8 cycles each.
    assert walked.cycles == pytest.approx(4 + 100 + 39 * 8, abs=16)


def test_rdna_issues_faster_than_gcn() -> None:
    text = LOOP.format(count=100)
    assert follow(text, RDNA3).cycles < follow(text).cycles


@pytest.mark.parametrize(
    ("code", "register", "value"),
    [
        ("s_add_u32 s3, s1, s2", "s3", 12),
        ("s_sub_i32 s3, s2, s1", "s3", 0xFFFFFFFE),
        ("s_mul_i32 s3, s1, s2", "s3", 35),
        ("s_mul_hi_u32 s3, s1, 0xffffffff", "s3", 6),
        ("s_mul_hi_i32 s3, s1, -1", "s3", 0xFFFFFFFF),
        ("s_bitcmp1_b32 s1, 0", "s1", 7),
        ("s_mulk_i32 s1, 0xfffe", "s1", 0xFFFFFFF2),
        ("s_addk_i32 s1, 0xffff", "s1", 6),
        ("s_movk_i32 s3, 0x8000", "s3", 0xFFFF8000),
        ("s_lshl_b32 s3, s1, 2", "s3", 28),
        ("s_lshr_b32 s3, s1, 1", "s3", 3),
        ("s_ashr_i32 s3, -8, 1", "s3", 0xFFFFFFFC),
        ("s_lshl2_add_u32 s3, s1, s2", "s3", 33),
        ("s_and_b32 s3, s1, s2", "s3", 5),
        ("s_and_b32 s3, s9, 0", "s3", 0),
        ("s_andn2_b32 s3, s1, s2", "s3", 2),
        ("s_and_not1_b32 s3, s1, s2", "s3", 2),
        ("s_not_b32 s3, s1", "s3", 0xFFFFFFF8),
        ("s_min_i32 s3, s1, s2", "s3", 5),
        ("s_max_u32 s3, s1, s2", "s3", 7),
        ("s_bfe_u32 s1, s2, 0x10001", "s1", None),
        ("s_add_u32 s1, s1, s9", "s1", None),
        ("s_load_dword s1, s[4:5], 0x0", "s1", None),
    ],
)
def test_scalar_instructions(code: str, register: str, value: int | None) -> None:
    scalars = Scalars()
    scalars.write("s1", 7)
    scalars.write("s2", 5)
    scalars.run(parse(f"{code}\ns_endpgm").instructions[0])
    assert scalars.read(register, 32) == value


@pytest.mark.parametrize(
    ("code", "taken"),
    [
        ("s_bitcmp1_b32 s1, 2", True), ("s_bitcmp0_b32 s1, 2", False),
        ("s_bitcmp1_b32 s1, 3", False), ("s_bitcmp1_b64 s[8:9], 3", None),
        ("s_cmp_lt_i32 s1, -1", False), ("s_cmp_lt_u32 s1, -1", True), ("s_cmp_eq_u32 s1, 7", True),
        ("s_cmpk_lg_u32 s1, 0x7", False), ("s_cmp_ge_i32 s9, 0", None),
        ("s_add_u32 s3, s1, -1", True), ("s_add_i32 s3, s1, -1", False),
        ("s_and_b32 s3, s1, 8", False), ("s_or_b32 s3, s1, s9", None),
    ],
)  # fmt: skip
def test_the_condition_code(code: str, taken: bool | None) -> None:
    scalars = Scalars()
    scalars.write("s1", 7)
    scalars.run(parse(f"{code}\ns_endpgm").instructions[0])
    assert scalars.condition("scc1") is taken
    assert scalars.condition("scc0") is (None if taken is None else not taken)


def test_what_looks_at_a_counter_leaves_it() -> None:
    """A loop of three turns that does something else in every other one."""
    turns = follow("""
    s_mov_b32 s1, 0
BB1:
    s_bitcmp1_b32 s1, 0
    s_cselect_b32 s2, 1, 2
    s_add_u32 s1, s1, 1
    s_cmp_ge_i32 s1, 3
    s_cbranch_scc0 BB1
    s_endpgm
""")
    assert turns.runs[1] == 3 and turns.unknown == 0


def test_masks_of_64_lanes() -> None:
    scalars = Scalars()
    for code in ("s_mov_b64 s[0:1], -1", "s_lshr_b64 s[2:3], s[0:1], 4", "s_not_b64 vcc, s[2:3]"):
        scalars.run(parse(f"{code}\ns_endpgm").instructions[0])
    assert scalars.read("s[2:3]", 64) == (1 << 60) - 1
    assert scalars.read("vcc", 64) == 0xF << 60
    assert scalars.read("s3", 32) == 0x0FFFFFFF
    assert scalars.condition("vccnz") is True
