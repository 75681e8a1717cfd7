"""``CompileOptions``: all that decides how a network is compiled, in one value.

Each option has one name, which is that of a field here, of ``--option NAME=VALUE`` and, in capital
letters behind ``TVM_VISION_``, of an environment variable. What is given counts, then the
environment, then the default. The environment is read when a value is made, and nowhere else.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .error_lines import meant, use_of
from .errors import InputError

_PREFIX = "TVM_VISION_"
# What other programs call a precision -> what to use here.
OF_PRECISIONS = {
    "int8": "'tvm-vision quantize' first, which makes an ONNX model of bytes",
    **dict.fromkeys(("half", "float16", "16"), "fp16"),
    **dict.fromkeys(("float", "float32", "32"), "fp32"),
}
_TRUE, _FALSE = ("on", "1", "true", "yes"), ("off", "0", "false", "no")


def _option(default: Any, values: tuple[Any, ...], words: str) -> Any:
    return dataclasses.field(default=default, metadata={"values": values, "help": words})


def _switch(words: str) -> Any:
    return _option(True, (True, False), words)


@dataclass(frozen=True)
class CompileOptions:
    """How a network is compiled for a target, checked.

    A value that an option cannot have raises InputError, which names those that it can. What each
    one does is in ``describe`` and in docs/reference/options.md.
    """

    opt_level: int = _option(
        3,
        (0, 1, 2, 3),
        "0: as it is; 1: constants folded; 2: and operators fused; 3: and scales folded in, layout "
        "and Winograd's convolution chosen",
    )
    precision: str = _option("fp32", ("fp32", "fp16"), "what weights and activations are stored as")
    layout: str = _option(
        "auto",
        ("auto", "nchw", "nhwc"),
        "nchw: channels stay in the model's order; nhwc: channels last, on a GPU",
    )
    int8: str = _option(
        "auto",
        ("auto", "on", "off"),
        "whether quantized networks are computed with int8; auto: on GPUs with a dot product in "
        "hardware",
    )
    winograd: str = _option(
        "auto",
        ("auto", "off", "one", "2", "4"),
        "Winograd's convolution wherever it can be, F(2x2) as one kernel, or F(2x2) or F(4x4) as "
        "three; auto: where it is estimated to be faster",
    )
    coopmat: bool = _switch("cooperative matrices, where the device has them")
    coopmat_nchw: bool = _switch(
        "cooperative matrices also for convolutions whose channels stay in the model's order"
    )
    coopmat_subtiles: bool = _switch(
        "large tiles of products on cooperative matrices: their sums are stored in parts"
    )
    attention: bool = _switch(
        "attention as one kernel, on cooperative matrices of fp16 or, where that is known to be "
        "faster, by multiplications and additions"
    )
    join_products: bool = _switch("products of one tensor that attention reads are one product")
    dp4a: bool = _switch("the dot product of four int8, where the device has it")
    split_k: bool = _switch("products of few results cut along their sum, over workgroups")
    fetch_ahead: bool = _switch(
        "products of float32 without matrices fetch the next tiles while they multiply, on GPUs "
        "that kernels were timed on"
    )
    halo: bool = _switch("convolutions on matrices keep their part of the image in shared memory")
    guarded_loads: str = _option(
        "auto",
        ("auto", "branch", "select"),
        "loads under a condition on GPUs, branch: passed over; select: made at a valid index "
        "instead, without a branch; auto: select on integrated GPUs, AMD's and Intel's cards, and "
        "where the driver needs it, and elsewhere for depthwise convolutions and pools",
    )
    packed_fp16: str = _option(
        "auto",
        ("auto", "on", "off"),
        "products of fp16 added up in fp16 over some 8 to 32 terms, in float32 beyond, on GPUs; "
        "auto: on AMD's and Intel's GPUs and integrated ones of subgroups of 64",
    )
    wide_subgroups: bool = _switch(
        "kernels without products compiled for the widest subgroups, on integrated GPUs whose "
        "driver chooses them"
    )
    weights_by_window: bool = _switch(
        "weights of convolutions keep the channels of each place of the window side by side, on "
        "GPUs that kernels were not timed on"
    )
    windows_as_rows: bool = _switch(
        "convolutions over patches of an image, the first layers of transformers, are products, on "
        "GPUs"
    )
    whole_rows: bool = _switch(
        "normalizations that a network writes out, as one kernel each, on GPUs"
    )
    join_chains: bool = _switch(
        "small products of one row that follow each other, as gates of squeeze-excite, as one "
        "kernel, on GPUs"
    )
    fuse_data_movement: bool = _switch(
        "concatenations, slices, resizing, gates of channels, and normalizations with ReLU inside "
        "the convolution, product or sum over rows that reads them, on GPUs"
    )
    concat_in_place: bool = _switch("concatenations without a kernel, where memory allows it")
    slice_in_place: bool = _switch(
        "pieces of a tensor that lie in one piece read where they are, without a kernel"
    )
    join_branches: bool = _switch("convolutions of one image that are added up as one convolution")
    repeated_parts: bool = _switch(
        "what is repeated for all pixels beside what each has is convolved, or multiplied, once"
    )
    sink_resizes: bool = _switch("enlargements behind the convolutions of one pixel that read them")
    join_moves: bool = _switch(
        "turned axes, reshapes and parts between two computations as one move, products' rows in "
        "the order in which they lie, and products scaled behind them, on GPUs"
    )
    reorder: bool = _switch("kernels of different branches side by side, on GPUs")
    llvm_opt_level: int = _option(
        3,
        (0, 1, 2, 3),
        "how much LLVM does for kernels on processors; at 0 they are made in some two thirds of "
        "the time, and run slowly",
    )
    kernel_cache: bool = _switch(
        "kernels that were made before of the same function, for the same target, are not made "
        "again; they are in the folder of TVM_VISION_CACHE_DIR"
    )
    package_cache: bool = _switch(
        "a package that was made before of the same file in the same way, for the same target by "
        "the same version, is not made again, unless kernel_cache is off; in the same folder"
    )
    kernel_processes: bool = _switch(
        "many kernels are made by several processes beside each other, where there are processors "
        "for them; each takes some 300 MB"
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, _checked(field, getattr(self, field.name)))

    @classmethod
    def of(
        cls, options: CompileOptions | Mapping[str, Any] | None = None, **given: Any
    ) -> CompileOptions:
        """The options of a call: what is given, the environment for the rest.

        options: a value of this class, which is changed by ``given`` alone, or values by name.
        given: values by name; None leaves an option to the others.

        Raises InputError for an option that does not exist, given twice, or of a wrong value.
        """
        given = {name: value for name, value in given.items() if value is not None}
        if isinstance(options, CompileOptions):
            return dataclasses.replace(options, **given)
        values = dict(options or {})
        if twice := sorted(set(values) & set(given)):
            raise InputError(f"an option is given once, found {twice[0]} twice: leave one out")
        values.update(given)
        if unknown := sorted(set(values) - set(_FIELDS)):
            raise InputError(f"options are needed, found '{unknown[0]}': {_known(unknown[0])}")
        return cls(**{**_from_environment(), **values})

    @classmethod
    def parse(cls, written: str) -> tuple[str, Any]:
        """Name and value of NAME=VALUE. Raises InputError, as ``of`` does."""
        name, equals, value = written.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in _FIELDS:
            raise InputError(
                f"an option as NAME=VALUE is needed, found '{written}': {_known(name)}"
            )
        return name, _checked(_FIELDS[name], value.strip())

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> CompileOptions:
        """The options that ``to_json`` gave, whatever the environment says. Raises InputError."""
        if set(values) != set(_FIELDS):
            odd = sorted(set(values) ^ set(_FIELDS))[0]
            raise InputError(f"options of this version are needed, found another about '{odd}'")
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """All options by name, as plain values."""
        return dataclasses.asdict(self)

    def changed(self) -> dict[str, str]:
        """Those that are not the default, as they are written."""
        pairs = ((f.name, getattr(self, f.name), f.default) for f in dataclasses.fields(self))
        return {name: _written(value) for name, value, default in pairs if value != default}

    @classmethod
    def values_of(cls, name: str) -> tuple[tuple[Any, ...], Any]:
        """The values that an option can have, and its default."""
        return _FIELDS[name].metadata["values"], _FIELDS[name].default

    @classmethod
    def describe(cls) -> Iterator[tuple[str, str, str, str]]:
        """For each option: name, values, default, what it does."""
        for field in dataclasses.fields(cls):
            values = ", ".join(map(_written, field.metadata["values"]))
            yield field.name, values, _written(field.default), field.metadata["help"]


_FIELDS = {field.name: field for field in dataclasses.fields(CompileOptions)}


def variable_of(name: str) -> str:
    """The environment variable of an option."""
    return _PREFIX + name.upper()


def _from_environment() -> dict[str, Any]:
    found = {}
    for name, field in _FIELDS.items():
        text = os.environ.get(variable_of(name), "")
        if text:
            found[name] = _checked(field, text, variable_of(name))
    return found


def _known(name: str) -> str:
    """What to do where no option has a name, or one that has it has no value."""
    if name in _FIELDS:
        return f"add = and {_either(_FIELDS[name].metadata['values'])}"
    return meant(name, _FIELDS, f"there are {', '.join(_FIELDS)}, see compile --help-options")


def _checked(field: Any, value: Any, where: str = "") -> Any:
    """A value of an option in the option's type; text, as it is written elsewhere, too."""
    values = field.metadata["values"]
    for known in values:
        same = type(value) is type(known) and value == known
        if same or (isinstance(value, str) and value.lower() in _spellings(known)):
            return known
    raise InputError(
        f"{where or f'option {field.name}'} must be {_either(values)}, found {value!r}"
        + (": unset it for the default" if where else use_of(str(value), OF_PRECISIONS))
    )


def _spellings(value: Any) -> tuple[str, ...]:
    if value in ("on", "off") or isinstance(value, bool):
        return _TRUE if value in ("on", True) else _FALSE
    return (str(value),)


def _written(value: Any) -> str:
    return _spellings(value)[0]


def _either(values: tuple[Any, ...]) -> str:
    *others, last = map(_written, values)
    return f"{', '.join(others)} or {last}"
