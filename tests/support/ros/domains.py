"""Domains for graphs that must not see each other."""

import socket

# Above them ports are also those that the system gives out.
HIGHEST = 101
# Abstract names in the system: they are free again when the process ends, however it does.
NAME = "\0tvm_vision-test-domain-{}"


def free_domain() -> tuple[int, socket.socket]:
    """A domain that no other tests on this machine have, for as long as the socket is open.

    Raises RuntimeError where all are taken.
    """
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    for domain in range(1, HIGHEST + 1):
        try:
            claim.bind(NAME.format(domain))
        except OSError:
            continue
        return domain, claim
    claim.close()
    raise RuntimeError(f"ROS domains 1 to {HIGHEST} are all taken: end some of the other tests")
