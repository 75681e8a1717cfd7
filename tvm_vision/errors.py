"""The exceptions of tvm_vision: a leaf that every part may import and that imports nothing.

A message is one line that states what was needed, what was found and what to do about it.
Commands print that line and exit with code 1; no other exception is meant to reach a user.
"""

# Characters of a message: what was found may be of any length.
LONGEST_MESSAGE = 2000


class TvmVisionError(Exception):
    """Base of everything tvm_vision raises on purpose; of a message without end, both ends stay.

    Names out of files may hold anything: line breaks and what cannot be printed are written out.
    """

    def __init__(self, message: object = "") -> None:
        text = str(message)
        if not text.isprintable():
            text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
        if len(text) > LONGEST_MESSAGE:
            half = LONGEST_MESSAGE // 2
            text = f"{text[:half]} ... {text[-half:]}"
        super().__init__(text)


class UnsupportedModelError(TvmVisionError):
    """A model uses something (an operator, a dynamic shape, a type) that cannot be compiled."""


class UnsupportedKernelError(TvmVisionError, RuntimeError):
    """One kernel cannot be written for a device; names the kernel, the construct or type, and the
    device feature that is missing. Code written for TVM's own backend catches RuntimeError."""


class SharedMemoryError(UnsupportedKernelError):
    """One kernel needs more shared memory than a device has, as it was scheduled."""


class PackageError(TvmVisionError):
    """A model package is damaged, incomplete, or of a format this version does not read."""


class DeviceError(TvmVisionError):
    """A device is absent, refused a request, ran out of memory or was lost.

    The native library raises the same kind, so that one ``except`` serves both languages.
    """


class DeviceLostError(DeviceError):
    """The work of a device is lost: the GPU was reset, a call for it failed, or it did not answer
    within the time limit. The device can be opened anew; what was on it is gone."""


class TuningError(TvmVisionError):
    """A search for schedules could not be started, measured or resumed."""


class InputError(TvmVisionError):
    """What the caller passed in (a file, an image, an option) is not usable."""
