"""Keys to sign packages with: the same in every run."""

from __future__ import annotations

import hashlib
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def make_keys(folder: Path, name: str, password: str = "") -> tuple[Path, Path]:
    """Files of a private and of a public key, whose value is made of their name."""
    key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())
    pem = serialization.Encoding.PEM
    hidden = (
        serialization.BestAvailableEncryption(password.encode())
        if password
        else serialization.NoEncryption()
    )
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, hidden))
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(pem, form))
    return private, public
