"""Intel's machine code, read and followed: loops by their counters, waits by what is waited for."""

from __future__ import annotations

import pytest

from tvm_vision.errors import InputError
from tvm_vision.offline.machines import XE
from tvm_vision.offline.model import occupancy
from tvm_vision.offline.network import Kernel, Launch, Network
from tvm_vision.offline.pipelines import Compiled, Pipeline
from tvm_vision.offline.survey import HEADER, kernel_rows, rows, survey
from tvm_vision.offline.xe_assembly import Message, parse
from tvm_vision.offline.xe_walk import walk

MACHINE = XE["tgl"]


@pytest.mark.parametrize(
    ("threads", "lanes", "shared", "groups", "bound"),
    [
        (64, 16, 0, 28, "slots"),  # nothing but hardware threads where nobody waits for another
        (32, 32, 0, 112, "slots"),
        (64, 32, 16, 32, "barriers"),
        (64, 16, 16, 28, "slots"),
        (64, 16, 5000, 16, "shared memory"),  # 8 KiB: sizes are powers of two
        (512, 16, 65536, 2, "shared memory"),
    ],
)
def test_how_many_workgroups_a_dual_subslice_holds(
    threads: int, lanes: int, shared: int, groups: int, bound: str
) -> None:
    held = occupancy(MACHINE, threads, lanes, 1, shared)
    assert (held.groups, held.bound) == (groups, bound)


END = """
send(8)         nullUD          g126UD          nullUD          0x02000000                0x00000000
                ts/btd MsgDesc:  mlen 1 ex_mlen 0 rlen 0        { align1 WE_all 1Q @1 EOT };
"""
LOAD = """
send(16)        g10UD           g8UD            nullUD          0x04805001                0x00000000
                hdc1 MsgDesc: (untyped surface read, Surface = 1, SIMD16, Mask = 0x0)  mlen 2 ex_mlen 0 rlen 8 { align1 1H @1 $0 };
"""  # noqa: E501
SHARED = """
send(16)        nullUD          g53UD           g88UD           0x040250fe                0x00000200
                hdc1 MsgDesc: (DC untyped surface write, Surface = 254, SIMD16, Mask = 0x0)  mlen 2 ex_mlen 8 rlen 0 { align1 1H $1 };
"""  # noqa: E501


def loop(start: int, step: int, end: int) -> str:
    """A loop whose counter is in g20, with one multiplication and addition of 16 lanes."""
    return f"""
mov(16)         g20<1>D         {start}D                        {{ align1 1H }};
LABEL0:
mad(16)         g30<1>F         g30<8,8,1>F     g40<8,8,1>F     g50<1,1,1>F {{ align1 1H }};
add(16)         g20<1>D         g20<8,8,1>D     {step}D         {{ align1 1H compacted }};
cmp.l.f0.0(16)  null<1>D        g20<8,8,1>D     {end}D          {{ align1 1H @1 }};
(+f0.0) while(16) JIP:  LABEL0                                  {{ align1 1H }};
{END}"""


def test_messages_say_what_they_move() -> None:
    found = [each.message for each in parse(LOAD + SHARED + END).instructions]
    assert found == [Message("load", 256, 0), Message("shared", 256, 1), Message("end", 0, None)]


@pytest.mark.parametrize(("start", "step", "end", "turns"), [(0, 1, 27, 27), (4, 4, 32, 7)])
def test_a_loop_is_followed_by_its_counter(start: int, step: int, end: int, turns: int) -> None:
    way = walk(parse(loop(start, step, end)), MACHINE)
    assert way.counts["mad"] == turns and way.unknown == 0
    # 16 lanes of float32 are two cycles of eight; so is each instruction of the counter.
    assert way.busy == 2 + 6 * turns


def test_a_loop_of_an_unknown_end_counts_once() -> None:
    text = loop(0, 1, 27).replace("27D  ", "g60<8,8,1>D")
    way = walk(parse(text), MACHINE)
    assert way.counts["mad"] == 1 and way.unknown == 1


def left_in_the_middle(end: str) -> str:
    """A loop that a break ends, behind a multiplication and before an addition."""
    return f"""
mov(16)         g20<1>D         0D                              {{ align1 1H }};
LABEL0:
mul(16)         g30<1>F         g30<8,8,1>F     g40<8,8,1>F     {{ align1 1H }};
add(16)         g20<1>D         g20<8,8,1>D     1D              {{ align1 1H compacted }};
cmp.ge.f0.0(16) null<1>D        g20<8,8,1>D     {end}           {{ align1 1H @1 }};
(+f0.0) break(16) JIP:  LABEL1        UIP:  LABEL1              {{ align1 1H }};
mad(16)         g31<1>F         g31<8,8,1>F     g40<8,8,1>F     g50<1,1,1>F {{ align1 1H }};
LABEL1:
while(16)       JIP:  LABEL0                                    {{ align1 1H }};
{END}"""


def test_a_loop_that_is_left_in_the_middle() -> None:
    way = walk(parse(left_in_the_middle("7D")), MACHINE)
    assert (way.counts["mul"], way.counts["mad"], way.unknown) == (7, 6, 0)
    way = walk(parse(left_in_the_middle("g60<8,8,1>D")), MACHINE)
    assert (way.counts["mul"], way.counts["mad"], way.unknown) == (1, 1, 1)


def test_a_value_is_waited_for_and_others_are_not() -> None:
    use = "add(16) g70<1>F g10<8,8,1>F g71<8,8,1>F {{ align1 1H {} }};\n"
    waiting = walk(parse(LOAD + use.format("$0.dst") + END), MACHINE)
    free = walk(parse(LOAD + use.format("") + END), MACHINE)
    assert waiting.waited == MACHINE.memory_latency and free.waited == 0
    assert waiting.memory_bytes == 256 and waiting.shared_bytes == 0


@pytest.mark.parametrize(
    ("line", "cycles"),
    [
        ("mad(8) g3<1>F g4<8,8,1>F g5<8,8,1>F g6<1,1,1>F { align1 1Q };", 1),
        ("mad(16) g3<1>HF g4<8,8,1>HF g5<8,8,1>HF g6<1,1,1>HF { align1 1H };", 1),
        ("mad(16) g3<1>F g4<8,8,1>HF g5<8,8,1>HF g6<1,1,1>F { align1 1H };", 2),
        ("dp4a(8) g3<1>D g4<8,8,1>D g5<8,8,1>D g6<1,1,1>D { align1 1Q };", 1),
        ("math inv(8) g3<1>F g4<8,8,1>F null<8,8,1>F { align1 1Q $3 };", 4),
    ],
)
def test_rates_of_arithmetic(line: str, cycles: int) -> None:
    assert walk(parse(line + END), MACHINE).busy == cycles


def test_the_way_not_taken() -> None:
    """Of an if that all lanes enter, what else they would have done is passed over."""
    text = f"""
mov(8)          g5<1>D          3D                              {{ align1 1Q }};
cmp.l.f0.0(8)   null<1>D        g5<8,8,1>D      2D              {{ align1 1Q @1 }};
(+f0.0) if(8)   JIP:  LABEL1          UIP:  LABEL1              {{ align1 1Q }};
mul(8)          g6<1>F          g7<8,8,1>F      g8<8,8,1>F      {{ align1 1Q }};
else(8)         JIP:  LABEL2          UIP:  LABEL2              {{ align1 1Q }};
LABEL1:
add(8)          g6<1>F          g7<8,8,1>F      g8<8,8,1>F      {{ align1 1Q }};
LABEL2:
endif(8)        JIP:  LABEL3                                    {{ align1 1Q }};
LABEL3:
{END}"""
    taken = walk(parse(text.replace("2D  ", "4D  ")), MACHINE).counts
    assert (taken["mul"], taken["add"]) == (1, 0)
    passed = walk(parse(text), MACHINE).counts
    assert (passed["mul"], passed["add"]) == (0, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [("s_endpgm", "found 's_endpgm'"), ("while(8) JIP: LABEL7 { align1 1Q };" + END, "LABEL7")],
)
def test_other_text_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse(text)


def test_a_survey_has_times_where_the_device_is_known() -> None:
    kernel = Kernel("one", "main", b"", (64, 1, 1), 2, 0, False, 0)
    network = Network("net", "fp32", {"one": kernel}, (Launch("one", 12, 4100),) * 2)
    names = ("Spills", "Fills", "Workgroup Memory Size", "Instructions", "SENDs", "Loops", "Cycles")
    statistics = dict.fromkeys((*names, "Code size"), 0)
    pipeline = Pipeline("one", 16, statistics, {"GEN Assembly": loop(0, 1, 27)})
    compiled = Compiled("Iris Xe", "anv", {"one": pipeline})
    found = survey(network, compiled, "tgl")
    (line,) = rows([found])
    # Two launches of 5 µs and what 27 turns take: too little to be seen in hundredths.
    assert dict(zip(HEADER, line, strict=True))["ms"] == "0.01"
    (row,) = kernel_rows(found, 1)
    assert float(row[1]) > 10 and row[2] == "latency"
    other = rows([survey(network, compiled, "mtl")])[0]
    assert dict(zip(HEADER, other, strict=True))["ms"] == ""
