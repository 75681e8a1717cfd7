"""What of TVM is private or patched, in one place: where an upgrade of TVM begins."""
