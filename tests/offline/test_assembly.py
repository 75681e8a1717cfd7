"""Machine code of AMD's GPUs as text: every name's kind, what is computed, bytes, labels."""

from __future__ import annotations

import pytest

from tvm_vision.errors import InputError
from tvm_vision.offline.assembly import Kind, Work, parse, read_instruction


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("v_add_u32_e32 v1, v2, v3", Kind.VECTOR),
        ("s_add_u32 s0, s0, 1", Kind.SCALAR),
        ("s_load_dwordx4 s[8:11], s[2:3], 0x20", Kind.SCALAR_LOAD),
        ("s_buffer_load_b32 s0, s[4:7], 0x0", Kind.SCALAR_LOAD),
        ("buffer_load_dword v1, v0, s[4:7], 0 offen", Kind.LOAD),
        ("global_load_b128 v[0:3], v[4:5], off", Kind.LOAD),
        ("buffer_store_b8 v1, v0, s[4:7], 0 offen", Kind.STORE),
        ("scratch_store_b32 off, v3, s0 offset:4", Kind.STORE),
        ("buffer_gl0_inv", Kind.NOTHING),
        ("buffer_wbinvl1", Kind.NOTHING),
        ("ds_write_b128 v1, v[2:5]", Kind.SHARED),
        ("ds_load_u16_d16_hi v1, v2 offset:2", Kind.SHARED),
        ("s_waitcnt vmcnt(0)", Kind.WAIT),
        ("s_waitcnt_vscnt null, 0x0", Kind.WAIT),
        ("s_waitcnt_depctr 0xffe3", Kind.NOTHING),
        ("s_barrier", Kind.BARRIER),
        ("s_cbranch_execz BB3", Kind.BRANCH),
        ("s_branch BB3", Kind.BRANCH),
        ("s_delay_alu instid0(VALU_DEP_1)", Kind.NOTHING),
        ("s_clause 0x1", Kind.NOTHING),
        ("s_nop 0", Kind.NOTHING),
        ("s_endpgm", Kind.END),
    ],
)
def test_kind(code: str, kind: Kind) -> None:
    assert read_instruction(code).kind is kind


@pytest.mark.parametrize(
    ("code", "work"),
    [
        ("v_mac_f32_e32 v1, v2, v3", Work.MULTIPLY_ADD),
        ("v_fmac_f32_dpp v1, v2, v3 quad_perm:[0,1,2,3]", Work.MULTIPLY_ADD),
        ("v_fma_f32 v1, v2, v3, v4", Work.MULTIPLY_ADD),
        ("v_pk_fma_f16 v1, v2, v3, v4", Work.PACKED),
        ("v_pk_mul_f16 v1, v2, v3", Work.PACKED),
        ("v_mad_mix_f32 v1, v2, v3, v4", Work.MIXED),
        ("v_fma_mixlo_f16 v1, v2, v3, v4", Work.MIXED),
        ("v_dot4_i32_iu8 v1, v2, v3, v4", Work.DOT),
        ("v_dot2_f32_f16 v1, v2, v3, v4", Work.DOT),
        ("v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]", Work.MATRIX),
        ("v_cvt_f32_f16_e32 v1, v2", Work.CONVERT),
        ("v_exp_f32_e32 v1, v2", Work.SPECIAL),
        ("v_rcp_iflag_f32_e32 v1, v2", Work.SPECIAL),
        ("v_mul_lo_u32 v1, v2, v3", Work.WIDE_INTEGER),
        ("v_mad_u64_u32 v[0:1], s[0:1], v2, v3, v[4:5]", Work.WIDE_INTEGER),
        ("v_mul_u32_u24_e32 v1, v2, v3", Work.OTHER),
        ("v_add_f64 v[0:1], v[2:3], v[4:5]", Work.DOUBLE),
        ("v_mov_b32_e32 v1, v2", Work.MOVE),
        ("v_add_f16_e32 v1, v2, v3", Work.OTHER),
        ("s_mov_b32 s0, 1", None),
    ],
)
def test_work(code: str, work: Work | None) -> None:
    assert read_instruction(code).work is work


@pytest.mark.parametrize(
    ("name", "lane_bytes"),
    [
        ("buffer_load_dword", 4), ("buffer_load_dwordx3", 12), ("buffer_load_b32", 4),
        ("buffer_load_b128", 16), ("buffer_load_ubyte", 1), ("buffer_load_sbyte_d16_hi", 1),
        ("buffer_load_ushort", 2), ("buffer_load_short_d16", 2), ("buffer_load_u8", 1),
        ("buffer_load_d16_b16", 2), ("buffer_load_format_xyzw", 4), ("global_store_b64", 8),
        ("ds_read_b64", 8), ("ds_read2_b32", 8), ("ds_read2st64_b64", 16), ("ds_write_b96", 12),
        ("ds_load_2addr_b64", 16), ("ds_load_u16", 2), ("ds_store_b8", 1), ("ds_read_u16_d16", 2),
        ("v_mov_b32", 0), ("s_load_dwordx4", 0),
    ],
)  # fmt: skip
def test_bytes_of_a_lane(name: str, lane_bytes: int) -> None:
    assert read_instruction(f"{name} v1, v2").lane_bytes == lane_bytes


def test_two_in_one() -> None:
    both = read_instruction("v_dual_fmac_f32 v1, v2, v3 :: v_dual_mov_b32 v4, v5")
    assert both.doubled and both.work is Work.MULTIPLY_ADD


def test_labels_repeats_and_what_has_no_name() -> None:
    program = parse(
        """BB0:
\ts_mov_b32 s0, 0                                            ; be800080
BB1:
\ts_nop 0                                                     ; bf800000
\t(then repeated 3 times)
(invalid instruction)                                        ; 7f5ccd2f
\ts_cbranch_scc1 BB1                                          ; bf850000
\ts_endpgm                                                    ; bf810000
"""
    )
    assert program.labels == {"BB0": 0, "BB1": 1}
    kinds = [each.kind for each in program.instructions]
    assert kinds.count(Kind.NOTHING) == 4 and kinds[5] is Kind.VECTOR
    assert program.instructions[0].operands == ("s0", "0")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is needed"),
        ("BB0:\n\ts_nop 0\n", "s_endpgm"),
        ("SIMD8 shader: 12 instructions.", "is needed, found 'SIMD8 shader"),
        ("\ts_branch BB7\n\ts_endpgm\n", "no such label"),
    ],
)
def test_what_is_no_machine_code_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse(text)
