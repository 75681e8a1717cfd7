"""Tests that run at the same time have graphs of their own."""

import subprocess
import sys

import pytest

from support.ros import domains

PROGRAM = """
from support.ros.domains import free_domain
domain, claim = free_domain()
print(domain, flush=True)
input()
"""


def test_processes_at_the_same_time_have_different_domains():
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    found = [int(process.stdout.readline()) for process in started]
    for process in started:
        process.communicate("\n", timeout=20)
    assert len(set(found)) == 3
    assert all(1 <= domain <= domains.HIGHEST for domain in found)


def test_a_domain_is_free_again(monkeypatch):
    monkeypatch.setattr(domains, "NAME", "\0tvm_vision-test-of-domains-{}")
    monkeypatch.setattr(domains, "HIGHEST", 2)
    (first, claim), (second, other) = domains.free_domain(), domains.free_domain()
    assert (first, second) == (1, 2)
    with pytest.raises(RuntimeError, match="ROS domains 1 to 2 are all taken"):
        domains.free_domain()
    claim.close()
    again, claim = domains.free_domain()
    assert again == 1
    claim.close()
    other.close()
