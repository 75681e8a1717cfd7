"""``tvm-vision rpc-server``."""

from __future__ import annotations

import click

from .trackers import parse_tracker


@click.command("rpc-server")
@click.option("--key", required=True, help="What boards of this kind are called, as in 'nuc'.")
@click.option("--tracker", callback=parse_tracker, metavar="HOST:PORT", help="Where to register.")
@click.option(
    "--host", default="127.0.0.1", show_default=True,
    help="Address to bind to. Others than loopback let everybody who reaches it run any code.",
)  # fmt: skip
@click.option("--port", type=click.IntRange(1, 65535), default=9090, show_default=True,
              help="The first port to try.")  # fmt: skip
@click.option("--port-end", type=click.IntRange(1, 65535), default=9199, show_default=True,
              help="The last port to try.")  # fmt: skip
@click.option("--address", help="Address that the tracker gives to others, if not --host.")
def rpc_server(
    key: str,
    tracker: tuple[str, int] | None,
    host: str,
    port: int,
    port_end: int,
    address: str | None,
) -> None:
    """Let other machines measure and evaluate on this one.

    Runs TVM's RPC server with the Vulkan backend, and starts it again when a candidate brings it
    down. It does what it is told by whoever reaches its port, as this user. The key tells boards
    apart and goes over the network in the clear: it is no password. Open the port to a network only
    where everybody may run code on this machine.

    \b
    Example:
      python -m tvm.exec.rpc_tracker --host 10.0.0.1 --port 9190       # on one machine
      tvm-vision rpc-server --key nuc --tracker 10.0.0.1:9190 --host 10.0.0.7   # on each robot
      tvm-vision tune yoeo.onnx -r yoeo.jsonl --tracker 10.0.0.1:9190 --key nuc
      tvm-vision evaluate yoeo.onnx photos/ --tracker 10.0.0.1:9190 --key nuc
    """
    from tvm_vision.tuning.rpc import is_loopback, serve

    if port_end < port:
        raise click.UsageError(f"--port-end must be at least --port, {port}, found {port_end}")
    if not is_loopback(host):
        click.echo(f"warning: whoever reaches {host}:{port} can run any code here", err=True)
    try:
        serve(
            key=key,
            host=host,
            port=port,
            port_end=port_end,
            tracker=tracker,
            address=address,
            tell=click.echo,
        )
    except KeyboardInterrupt:
        click.echo("stopped")
