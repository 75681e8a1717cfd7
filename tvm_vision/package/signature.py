"""Who made a package: mod.sig, an Ed25519 signature (RFC 8032), and the keys to make and check it.

Signed is the SHA-256 of mod.json, and of the mod.json of each variant of a package for several
devices. Each of these has the SHA-256 of its mod.params and mod.so, which are checked whenever a
package is read: so a signature is of all that can be loaded, and checking it costs nothing more.

Keys are files as every tool has them, PEM of PKCS #8 and of SubjectPublicKeyInfo (RFC 8410):
``openssl genpkey -algorithm ed25519``.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, PackageError
from ..plain_files import read_plain
from .fields import Fields, parse_object, wrong
from .info import canonical

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

FORMAT, FORMAT_VERSION = "tvm_vision signature", 1
SIGNATURE_BYTES = 64
MOST_KEY_BYTES = 1 << 16
MAKE_ONE = "openssl genpkey -algorithm ed25519 -out sign.pem, and openssl pkey -in sign.pem -pubout"
Password = Callable[[], str]
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\r\n"


@dataclass(frozen=True)
class PrivateKey:
    """A key to sign with, and its fingerprint."""

    key: Ed25519PrivateKey
    fingerprint: str

    @classmethod
    def read(cls, path: str | os.PathLike[str], password: Password | None = None) -> PrivateKey:
        """A PEM file with a private Ed25519 key. password: asked where it is encrypted.

        Raises InputError where there is none that can be read.
        """
        serialization, ed25519 = _library()
        content = _key_file(path, "a private")
        try:
            key = serialization.load_pem_private_key(content, None)
        except TypeError:  # it is encrypted
            if password is None:
                raise InputError(
                    f"the password of '{path}' is needed, which is encrypted"
                ) from None
            key = _decrypted(path, content, password())
        except Exception:
            raise _no_key(path, "a private") from None
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise _no_key(path, "a private")
        return cls(key, _fingerprint(key.public_key()))


@dataclass(frozen=True)
class PublicKeys:
    """Keys of who is trusted, by their fingerprints; ``path`` is the file that they are of."""

    path: Path
    keys: Mapping[str, Ed25519PublicKey]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> PublicKeys:
        """A PEM file with public Ed25519 keys, one after the other: any of them may have signed.

        Raises InputError where there is none that can be read.
        """
        serialization, ed25519 = _library()
        content = _key_file(path, "a public")
        end = b"-----END PUBLIC KEY-----"
        *blocks, rest = content.split(end)
        keys = {}
        try:
            for block in blocks:
                _, *inside = block.split(b"-----BEGIN PUBLIC KEY-----")
                # No headers, which libraries read in different ways.
                if len(inside) != 1 or inside[0].translate(None, _BASE64):
                    raise ValueError(path)
                key = serialization.load_pem_public_key(block + end + b"\n")
                if not isinstance(key, ed25519.Ed25519PublicKey):
                    raise ValueError(path)
                keys[_fingerprint(key)] = key
        except Exception:
            raise _no_key(path, "a public") from None
        if not keys or b"-----" in rest:
            raise _no_key(path, "a public")
        return cls(Path(path), keys)

    def describe(self) -> str:
        """For messages: "robot.pub (3f2a91c04d5e)"."""
        return f"{self.path.name} ({', '.join(key[:12] for key in self.keys)})"


@dataclass(frozen=True)
class Statement:
    """What is signed. info: SHA-256 of mod.json, in hex. variants: of the mod.json of each variant,
    by its name; empty for a package for one device. key: fingerprint of who signed, "" before."""

    info: str
    variants: Mapping[str, str]
    key: str = ""

    @classmethod
    def of(cls, info: bytes, variants: Mapping[str, bytes]) -> Statement:
        """Of the texts of mod.json."""
        return cls(_sha256(info), {name: _sha256(each) for name, each in variants.items()})

    def check_variant(self, name: str, info: bytes) -> None:
        """Raise PackageError unless this is the mod.json of that variant."""
        if self.variants.get(name) != _sha256(info):
            raise PackageError(
                f"the mod.json of '{name}' is needed as it was signed, and it is another: it was "
                "changed or damaged; take the package again from who signed it"
            )

    def signed_by(self, key: PrivateKey) -> bytes:
        """The content of mod.sig."""
        statement = Statement(self.info, self.variants, key.fingerprint)
        return statement._with(key.key.sign(canonical(statement._document())))

    def _with(self, signature: bytes) -> bytes:
        """The content of a mod.sig with these bytes."""
        return canonical({**self._document(), "ed25519": signature.hex()}) + b"\n"

    def _document(self) -> dict[str, Any]:
        return {
            # So that a signature is never taken for one of something else.
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "info": self.info,
            "key": self.key,
            "variants": dict(self.variants),
        }


def check_signature(signature: bytes | None, info: bytes, keys: PublicKeys) -> Statement:
    """What one of some keys has signed. signature: mod.sig, or None. info: the text of mod.json.

    Raises PackageError unless the signature is by one of the keys, and of this mod.json.
    """
    take = "take the package again from who signed it"
    needed = f"a signature by {keys.describe()} is needed"
    if signature is None:
        raise PackageError(f"{needed}, and the package has none: 'tvm-vision sign' makes one")
    statement, bytes_of = _parse(signature)
    key = keys.keys.get(statement.key)
    if key is None:
        raise PackageError(f"{needed}, and it is signed by {statement.key[:12]}: {take}")
    try:
        key.verify(bytes_of, canonical(statement._document()))
    except Exception:  # InvalidSignature, of a library that need not be there
        raise PackageError(
            f"{needed}, and what mod.sig has is none of that key: it was changed; {take}"
        ) from None
    if statement.info != _sha256(info):
        raise PackageError(f"{needed} of this mod.json, and it is of another: {take}")
    return statement


def signer(signature: bytes) -> str:
    """The fingerprint of the key that a mod.sig names, which nothing says is true. Raises
    PackageError for what is none."""
    return _parse(signature)[0].key


def fits(signature: bytes, info: bytes) -> bool:
    """Whether a mod.sig is of this mod.json alone, whoever made it."""
    try:
        statement, _ = _parse(signature)
    except PackageError:
        return False
    return statement.info == _sha256(info)


def _parse(signature: bytes) -> tuple[Statement, bytes]:
    """What a mod.sig says, and the signature itself. Raises PackageError for what is none.

    One text alone says it, the one that ``signed_by`` wrote: no byte of it may change, and readers
    in other languages cannot understand it in another way.
    """
    try:
        fields = Fields(parse_object(signature), "")
        statement = Statement(
            _hexadecimal(fields.take("info"), "info"),
            fields.mapping("variants", _hexadecimal),
            _hexadecimal(fields.take("key"), "key"),
        )
        bytes_of = bytes.fromhex(_hexadecimal(fields.take("ed25519"), "ed25519", SIGNATURE_BYTES))
        sound = statement._with(bytes_of) == signature
    except PackageError:
        sound = False
    if not sound:
        raise PackageError(
            "mod.sig cannot be read: it must be as 'tvm-vision sign' writes it, and is not: sign "
            "the package again"
        )
    return statement, bytes_of


def _hexadecimal(value: Any, where: str, count: int = hashlib.sha256().digest_size) -> str:
    """So many bytes, as a text of JSON."""
    if not isinstance(value, str) or not re.fullmatch(f"[0-9a-f]{{{2 * count}}}", value):
        wrong(where, f"{2 * count} hexadecimal digits", value)
    return value


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _library() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise InputError(
            "signatures need the package cryptography, which is not installed: "
            "pip install 'tvm_vision[sign]'"
        ) from None
    return serialization, ed25519


def _key_file(path: str | os.PathLike[str], what: str) -> bytes:
    try:
        return read_plain(path, MOST_KEY_BYTES)
    except OSError as error:
        raise InputError(
            f"{what} key is needed, and '{os.fspath(path)}' cannot be read "
            f"({error.strerror or error}): check the path"
        ) from None


def _decrypted(path: str | os.PathLike[str], content: bytes, password: str) -> Any:
    serialization, _ = _library()
    try:
        return serialization.load_pem_private_key(content, password.encode())
    except Exception:
        raise InputError(f"the password of '{os.fspath(path)}' is needed, found another") from None


def _no_key(path: str | os.PathLike[str], what: str) -> InputError:
    return InputError(
        f"{what} Ed25519 key in PEM is needed, and '{os.fspath(path)}' is none: {MAKE_ONE} make one"
    )


def _fingerprint(key: Ed25519PublicKey) -> str:
    """SHA-256 of the key as SubjectPublicKeyInfo, DER, in hex; as ``openssl pkey -pubin -outform
    DER | sha256sum`` has it."""
    serialization, _ = _library()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return _sha256(key.public_bytes(serialization.Encoding.DER, form))
