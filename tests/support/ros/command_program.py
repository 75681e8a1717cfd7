"""The command tvm-vision as a program."""

from tvm_vision.tools.cli import main

if __name__ == "__main__":
    main()
