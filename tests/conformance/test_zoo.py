"""The tool that tries networks of packages: it finds them, judges them and goes on."""

import io
import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from support.conformance.conformance_worker import FP16
from support.zoo import __main__ as zoo
from support.zoo import rows, trial
from support.zoo.files import find, package_of
from support.zoo.table import markdown

DOCS = Path(__file__).resolve().parents[2] / "docs"
KEPT = Path(rows.__file__).with_name("networks.jsonl")


def relu(size):
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", value[:1], value[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def archive(members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return stream.getvalue()


@pytest.fixture
def wheel(tmp_path):
    one, two = (relu(size).SerializeToString() for size in (4, 8))
    path = tmp_path / "some_nets-1.2.3-py3-none-any.whl"
    path.write_bytes(
        archive({"a/one.onnx": one, "b/in.zip": archive({"two.onnx": two, "same.onnx": one}),
                 "../../out.onnx": relu(16).SerializeToString(), "a/text.txt": b"no network"})
    )  # fmt: skip
    return path


def test_networks_of_wheels_and_of_zips_in_them_are_found_once(wheel, tmp_path):
    found = list(find([wheel], tmp_path / "unpacked"))
    assert [(network.package, network.version, network.name) for network in found] == [
        ("some-nets", "1.2.3", "one.onnx"),
        ("some-nets", "1.2.3", "two.onnx"),
    ]
    assert onnx.load(found[1].path) == relu(8)
    assert not list(tmp_path.rglob("out.onnx"))


@pytest.mark.parametrize(
    ("file", "package"),
    [
        ("silero_vad-6.2.3-py3-none-any.whl", ("silero-vad", "6.2.3")),
        ("a-1.0.post1-cp311-cp311-manylinux_2_28_x86_64.whl", ("a", "1.0.post1")),
        ("models.zip", ("models", "")),
        ("segmentation-models-0.6.0", ("segmentation-models", "0.6.0")),
        ("models", ("models", "")),
    ],
)
def test_a_wheel_says_what_it_is(file, package):
    assert package_of(file) == package


def test_a_run_judges_each_network_and_tries_none_twice(wheel, tmp_path, monkeypatch, capsys):
    results, page = tmp_path / "results.jsonl", tmp_path / "page.md"
    arguments = ["zoo", str(wheel), "--results", str(results), "--report", str(page)]
    monkeypatch.setattr(sys, "argv", [*arguments, "--targets", "llvm", "--only", "one"])
    assert zoo.main() == 0
    (line,) = map(json.loads, results.read_text().splitlines())
    assert (line["outcome"], line["error"], line["operators"]) == ("right", 0.0, 1)
    assert line["reference"].startswith("onnxruntime")
    assert "| some-nets 1.2.3 | one.onnx | - | 1 | right | 0.0e+00 |" in page.read_text()
    assert zoo.main() == 0
    assert len(results.read_text().splitlines()) == 1
    assert "llvm 1 {'right': 1}" in capsys.readouterr().out


def test_what_a_file_leaves_open_is_said_in_a_table(tmp_path, monkeypatch):
    """Sizes that a network can have, and numbers that it takes: a row beyond the table is not."""
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    kinds = (TensorProto.INT64, TensorProto.FLOAT)
    x, y = (
        helper.make_tensor_value_info(name, kind, ["n", *rest])
        for name, kind, rest in zip("xy", kinds, ([], [2]), strict=True)
    )
    node = helper.make_node("Gather", ["rows", "x"], ["y"])
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(rows, "rows")])
    network, said, results = (tmp_path / name for name in ("a.onnx", "said.json", "r.jsonl"))
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), network)
    said.write_text(json.dumps({"*/a.onnx": {"x": {"shape": [3], "low": 2, "high": 3}}}))
    arguments = ["zoo", str(network), "--inputs", str(said), "--results", str(results)]
    monkeypatch.setattr(sys, "argv", [*arguments, "--targets", "llvm"])
    assert zoo.main() == 0
    assert json.loads(results.read_text())["outcome"] == "right"


ROW = {
    "package": "p", "version": "1", "file": "a/b.onnx", "exporter": "torch 2", "operators": 7,
    "target": "llvm", "outcome": "refused", "message": "a | b", "reference": "onnxruntime 1",
    "device": "x86_64", "commit": "abc1234",
}  # fmt: skip


def test_the_page_says_why_a_network_is_not_right():
    page = markdown([ROW])
    assert "| refused | 1 | not compiled" in page
    assert "| p 1 | a/b.onnx | torch 2 | 7 | refused | - | - | - | abc1234 |" in page
    assert "- p `a/b.onnx` (llvm): a | b" in page
    assert "- 1 held to onnxruntime 1, on x86_64" in page


def test_networks_of_one_name_are_told_by_what_is_before_it(tmp_path):
    for index, name in enumerate(("a/x/n.onnx", "b/x/n.onnx", "b/m.onnx", "n.onnx")):
        path = tmp_path / "p-1.0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes([index]))
    found = find([tmp_path / "p-1.0"], tmp_path / "unpacked")
    assert [network.name for network in found] == ["a/x/n.onnx", "m.onnx", "b/x/n.onnx", "n.onnx"]


def test_rows_replace_those_of_their_network_and_target(tmp_path):
    """Whatever broke off the run before; the order of lines is that of names."""
    path = tmp_path / "rows.jsonl"
    other, anew = {**ROW, "package": "a"}, {**ROW, "outcome": "right", "message": ""}
    path.write_text("".join(map(rows.text, (ROW, other, anew))) + '{"package": "cut o')
    kept = rows.read(path)
    assert [(row["package"], row["outcome"]) for row in kept] == [("a", "refused"), ("p", "right")]
    rows.write(path, kept)
    assert path.read_text() == rows.text(other) + rows.text(anew)


def test_a_run_goes_on_behind_a_line_that_was_cut_off(wheel, tmp_path, monkeypatch):
    results = tmp_path / "results.jsonl"
    results.write_text(rows.text(ROW) + '{"package": "some-nets", "vers')
    command = ["zoo", str(wheel), "--results", str(results), "--targets", "llvm", "--only", "one"]
    monkeypatch.setattr(sys, "argv", command)
    assert zoo.main() == 0
    assert [row["package"] for row in rows.read(results)] == ["p", "some-nets"]
    monkeypatch.setattr(sys, "argv", [*command, "--again", "some-nets"])
    monkeypatch.setattr(zoo, "tried", lambda network, targets, *_: [{**ROW, "commit": "def"}])
    assert zoo.main() == 0
    assert [row["commit"] for row in rows.read(results) if row["package"] == "p"] == ["def"]


def test_the_page_is_that_of_the_kept_rows():
    kept = rows.read(KEPT)
    assert (DOCS / "reference" / "networks.md").read_text() == markdown(kept)
    assert KEPT.read_text() == "".join(map(rows.text, kept))


@pytest.mark.parametrize(("scale", "outcome"), [(1e5, "beyond"), (1.0, "right")])
def test_values_that_fp16_cannot_hold_are_no_fault(tmp_path, scale, outcome):
    """The network is right in fp32, and says which value it is."""
    nodes = [
        helper.make_node("MatMul", ["x", "up"], ["between"]),
        helper.make_node("MatMul", ["between", "down"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (4, 8)) for name in "xy")
    plain = np.random.default_rng(0).random((8, 8), np.float32)
    weights = {"up": plain * np.float32(scale), "down": plain / np.float32(scale)}
    held = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], held)
    opsets = [helper.make_opsetid("", 17)]
    path = tmp_path / "large.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    found = trial.Trial(path, {}).run(FP16)
    assert found["outcome"] == outcome
    assert ("'between' reaches" in found["message"]) == (outcome == "beyond")


def test_results_that_no_input_changes_say_nothing(tmp_path):
    """As of a network whose last weights are 0, which any compiler has right."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (4, 8)) for name in "xy")
    held = [numpy_helper.from_array(np.zeros((8, 8), np.float32), "w")]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], held)
    opsets = [helper.make_opsetid("", 17)]
    path = tmp_path / "zeros.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    found = trial.Trial(path, {}).run("llvm")
    assert (found["outcome"], found["message"][:18]) == ("ran", "nothing to compare")


class TestNetworksThatChoose:
    """Rows of a table by the order of scores, two of which are a rounding apart."""

    SCORES = np.array([0.5, 1.0, 1.0 + 3e-7, 2.0], np.float32)
    TABLE = np.array([[1, 2], [3, 4], [50, 60], [7, 8]], np.float32)

    @pytest.fixture
    def chooser(self, tmp_path):
        nodes = [
            helper.make_node("Mul", ["x", "one"], ["scores"]),
            helper.make_node("TopK", ["scores", "k"], ["best", "places"]),
            helper.make_node("Gather", ["table", "places"], ["rows"]),
            helper.make_node("Greater", ["rows", "limit"], ["above"]),
            helper.make_node("Compress", ["table", "chosen"], ["kept"], axis=0),
            helper.make_node("Reshape", ["inner", "flat"], ["chosen"]),
            helper.make_node("Slice", ["above", "from", "to", "axis"], ["inner"]),
        ]
        constants = {
            "one": np.float32(1), "table": self.TABLE, "limit": np.float32(2.5),
            **{name: np.array([value]) for name, value in (("k", 4), ("flat", 4))},
            **{name: np.array([value]) for name, value in (("from", 0), ("to", 1), ("axis", 1))},
        }  # fmt: skip
        nodes = [nodes[index] for index in (0, 1, 2, 3, 6, 5, 4)]
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)
            for name, sizes in (("x", [4]), ("rows", [4, 2]), ("kept", None))
        ]
        held = [numpy_helper.from_array(array, name) for name, array in constants.items()]
        graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], held)
        opsets = [helper.make_opsetid("", 17)]
        path = tmp_path / "chooser.onnx"
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
        return path

    def ours(self, scores, damage=0.0):
        """What an engine has whose scores are those; damage: added to a row that it takes."""
        order = np.argsort(-scores, kind="stable")
        rows = self.TABLE[order] + np.float32(damage)
        above = rows[:, 0] > 2.5
        kept = np.zeros((4, 2), np.float32)
        kept[: above.sum()] = self.TABLE[above]
        count = np.int64(above.sum())
        return {"rows": rows, "kept": kept, "kept_count": count, "scores": scores}

    def judged(self, path, monkeypatch, ours):
        """The outcome of a network whose compiled form gives ``ours``."""

        def pretended(imported, target):
            names = [spec.name for spec in imported[1].outputs]
            return lambda *_: [ours[name] for name in names]

        monkeypatch.setattr(trial, "executor", pretended)
        tried = trial.Trial(path, {})
        feed = {"x": self.SCORES}
        tried.feeds, tried.own = [feed], {}
        tried.wanted = [trial.reference(path, optimized=False, input_values={}).run(feed)]
        return tried.run("llvm")

    def test_a_near_tie_is_no_fault(self, chooser, monkeypatch):
        nearly = self.SCORES * np.array([1, 1 + 6e-7, 1, 1], np.float32)
        found = self.judged(chooser, monkeypatch, self.ours(nearly))
        assert (found["outcome"], found["error"] < 1e-6) == ("right", True)
        assert found["ties"].startswith("TopK")

    def test_a_fault_behind_a_near_tie_is_one(self, chooser, monkeypatch):
        nearly = self.SCORES * np.array([1, 1 + 6e-7, 1, 1], np.float32)
        found = self.judged(chooser, monkeypatch, self.ours(nearly, damage=0.25))
        assert (found["outcome"], found["message"]) == (
            "wrong",
            "'rows' is off by 0.0042, with the same choices before it",
        )

    def test_scores_beyond_the_tolerance_are_a_fault(self, chooser, monkeypatch):
        other = self.SCORES * np.array([1, 1.1, 1, 1], np.float32)
        found = self.judged(chooser, monkeypatch, self.ours(other))
        assert found["outcome"] == "wrong"
        assert "'scores' is off by 0.05" in found["message"]
