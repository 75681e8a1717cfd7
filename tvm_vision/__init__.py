"""Neural vision for robots: networks on any Vulkan GPU with the stock wheel of Apache TVM."""

__version__ = "0.1.0"
