"""Commands about the machine: doctor, topo, bench."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from zerocfg.cli.app import ConfigName, ConfigPath, Json, Overrides
from zerocfg.cli.pages import Commands

bench = typer.Typer(
    cls=Commands,
    help="Measure collectives against the links' rate.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Plot = Annotated[
    Optional[str],  # noqa: UP045 - typer evaluates it on every Python
    typer.Option("--plot", metavar="FILE", help="Also draw it: PNG, SVG, PDF (needs matplotlib)."),
]


def add_to(app: typer.Typer) -> None:
    app.command("doctor")(_doctor)
    app.command("topo")(_topo)
    bench.command("comm")(_comm)
    app.add_typer(bench, name="bench")


def _doctor(overrides: Overrides = None, as_json: Json = False, config_path: ConfigPath = None, config_name: ConfigName = None) -> None:
    """Check this machine for a run, each problem with its fix. Exit status: 0 fit, 1 not."""
    from zerocfg.cli.doctor import doctor_command

    raise typer.Exit(doctor_command(overrides or [], as_json=as_json, config_path=config_path, config_name=config_name))


def _topo(
    gpus: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--gpus", metavar="N", min=1, help="GPUs of a job. Default: all that are free."),
    ] = None,
    free: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--free", metavar="0,2,3", help="GPUs that are free. Default: all."),
    ] = None,
    file: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--file", metavar="FILE", help="Output of `nvidia-smi topo -m` of another machine; - for stdin."),
    ] = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Show the GPUs' links, and which GPUs and CPUs a job gets."""
    from zerocfg.cli.topo import topo_command

    raise typer.Exit(topo_command(gpus=gpus, free=free, file=file, plot=plot, as_json=as_json))


def _comm(
    overrides: Overrides = None,
    backend: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--backend", metavar="nccl,gloo", help="Default: nccl on GPUs, gloo without."),
    ] = None,
    sizes: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--sizes", metavar="SIZES", help="256M,1G or 1K:1G:4 (from, to, factor). Default: 1K:1G:4 for nccl, 1K:64M:4 for gloo."
        ),
    ] = None,
    ops: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--ops", metavar="OPS", help="all_reduce, all_gather, reduce_scatter, all_to_all, broadcast. Default: all."),
    ] = None,
    out: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--out", metavar="FILE", help="Where the curve is written. Default: in your cache folder."),
    ] = None,
    target: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--target", metavar="local|slurm", help="slurm: on the nodes of a job. Default: this machine."),
    ] = None,
    plot: Plot = None,
    as_json: Json = False,
    config_path: ConfigPath = None,
    config_name: ConfigName = None,
) -> None:
    """Measure latency and bandwidth of collectives.

    Bandwidth as nccl-tests count it, with its share of the link's rate.
    """
    from zerocfg.cli.bench import comm_command

    raise typer.Exit(
        comm_command(
            overrides or [],
            backend=backend,
            sizes=sizes,
            ops=ops,
            out=out,
            target=target,
            plot=plot,
            as_json=as_json,
            config_path=config_path,
            config_name=config_name,
        )
    )
