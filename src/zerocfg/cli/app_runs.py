"""Commands about what a run has left: consolidate."""

from __future__ import annotations

from typing import Annotated, Optional

import typer


def add_to(app: typer.Typer) -> None:
    app.command("consolidate")(_consolidate)


def _consolidate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A job's folder, a folder of checkpoints, or one checkpoint.")],
    tag: Annotated[
        Optional[str],  # noqa: UP045 - typer evaluates it on every Python
        typer.Option("--tag", metavar="global_step40", help="Default: the newest whole one."),
    ] = None,
    out: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--out", metavar="DIR", help="Default: RUN/weights."),
    ] = None,
    dtype: Annotated[str, typer.Option("--dtype", metavar="fp32|bf16", help="fp32: as the optimizer keeps them.")] = "fp32",
    safetensors: Annotated[
        bool, typer.Option("--safetensors/--torch", help="model.safetensors, or pytorch_model.bin for torch.load.")
    ] = True,
) -> None:
    """Write the whole model's weights out of a checkpoint of any ZeRO stage."""
    from zerocfg.cli.consolidate import consolidate_command

    raise typer.Exit(consolidate_command(run, tag=tag, out=out, dtype=dtype, safetensors=safetensors))
