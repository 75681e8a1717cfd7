"""The commands of ``tvm-vision``: one file a command, each parses, calls the library and prints."""
