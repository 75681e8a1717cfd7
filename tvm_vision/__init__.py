"""Neural vision for robots: networks on any Vulkan GPU with the stock wheel of Apache TVM.

Importing it registers the Vulkan backend: ``tvm.vulkan(0)`` and targets of kind ``vulkan`` work.
"""

from . import vulkan

__version__ = "0.1.0"
__all__ = ["vulkan"]
