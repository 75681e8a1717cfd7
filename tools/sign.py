"""``tvm-vision sign`` and ``tvm-vision verify``."""

from __future__ import annotations

from pathlib import Path

import click

from .options import PATH, package_argument


@click.command()
@package_argument()
@click.option(
    "--key", required=True, type=PATH, help="A private Ed25519 key, PEM; its password is asked."
)
def sign(package: Path, key: Path) -> None:
    """Sign a package, to tell that it is yours.

    PACKAGE, a tar or folder, gets one more file, mod.sig. All of it is read and checked first,
    every variant of one for several devices too. A robot that is told to refuses what is not
    signed: load(verify="sign.pub"), or the node's parameter verify_key.

    \b
    Example:
      openssl genpkey -algorithm ed25519 -aes256 -out sign.pem   # once; keep it to yourself
      openssl pkey -in sign.pem -pubout -out sign.pub            # for every robot
      tvm-vision sign model.tar --key sign.pem
    """
    from tvm_vision.package import PrivateKey, sign_package

    private = PrivateKey.read(key, lambda: click.prompt(f"password of {key}", hide_input=True))
    sign_package(package, private)
    click.echo(f"signed {package} by {private.fingerprint[:12]}")


@click.command()
@package_argument()
@click.option(
    "--key", required=True, type=PATH,
    help="Public Ed25519 keys, PEM, one after the other: one of them must have signed.",
)  # fmt: skip
def verify(package: Path, key: Path) -> None:
    """Check a package and who signed it.

    All of it is checked, and that one of the keys has signed it. Nothing of PACKAGE is run. Exit
    code 1, with one line, where anything of it is not as it was signed.

    \b
    Example:
      tvm-vision verify model.tar --key sign.pub
    """
    from tvm_vision.package import PublicKeys, verify_package

    signed = verify_package(package, PublicKeys.read(key))
    variants = f", {len(signed.variants)} variants" if signed.variants else ""
    click.echo(f"{package} is as {signed.key[:12]} signed it{variants}")
