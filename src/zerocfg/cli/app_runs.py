"""Commands about what a run has left: consolidate, report."""

from __future__ import annotations

from typing import Annotated, Optional

import typer


def add_to(app: typer.Typer) -> None:
    app.command("consolidate")(_consolidate)
    app.command("report")(_report)


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
    """Write the whole model's weights out of a checkpoint.

    The checkpoint may be of any ZeRO stage.
    """
    from zerocfg.cli.consolidate import consolidate_command

    raise typer.Exit(consolidate_command(run, tag=tag, out=out, dtype=dtype, safetensors=safetensors))


def _report(
    folder: Annotated[str, typer.Argument(metavar="RUN_OR_SWEEP", help="A job's folder, or hydra.sweep.dir.")],
    out: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--out", metavar="FILE", help="Default: report.html in that folder."),
    ] = None,
    opened: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Write one HTML page about a run or a sweep.

    It shows curves, times, memory, configuration, failures.
    """
    from zerocfg.cli.report import report_command

    raise typer.Exit(report_command(folder, out=out, opened=opened))
