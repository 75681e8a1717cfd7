"""``tvm-vision package``: unpack and repack."""

from __future__ import annotations

from pathlib import Path

import click

from .options import PATH, package_argument, variant_option, wanted_target


@click.group()
def package() -> None:
    """Take packages apart and put them together again.

    \b
    Example:
      tvm-vision package unpack model.tar model
      tvm-vision package repack model model-2.tar
    """


@package.command()
@package_argument()
@click.argument("folder", type=PATH)
@variant_option()
def unpack(package: Path, folder: Path) -> None:
    """Write what is in the tar PACKAGE into FOLDER, which is made.

    FOLDER is a package as well: every command takes it. Of a package for several devices it is that
    of one, which --target names.

    \b
    Example:
      tvm-vision package unpack model.tar model
      tvm-vision package unpack team.tar renoir --target renoir
    """
    from tvm_vision.package import unpack_package

    unpack_package(package, folder, variant=wanted_target())
    members = ", ".join(sorted(path.name for path in folder.iterdir()))
    click.echo(f"wrote {folder}: {members}")


@package.command()
@click.argument("folder", type=PATH)
@click.argument("package", type=PATH)
def repack(folder: Path, package: Path) -> None:
    """Write FOLDER as the tar PACKAGE.

    After mod.json was edited, for example its labels. Everything is checked as when a package
    is read; the checksums are made anew.

    \b
    Example:
      tvm-vision package repack model model-2.tar
    """
    from tvm_vision.package import repack_package

    info = repack_package(folder, package)
    click.echo(f"wrote {package}: {info.model.name}, {len(info.graph.kernels)} kernels")
