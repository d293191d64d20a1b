"""Commands about the machine: doctor, topo, bench."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from zerocfg.cli.app import ConfigName, ConfigPath, Json, Overrides

bench = typer.Typer(help="Measure this machine.", no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})
Plot = Annotated[
    Optional[str],  # noqa: UP045 - typer evaluates it on every Python
    typer.Option("--plot", metavar="FILE", help="Also draw it: PNG, SVG, PDF (needs matplotlib)."),
]


def add_to(app: typer.Typer) -> None:
    app.command("doctor")(_doctor)


def _doctor(overrides: Overrides = None, as_json: Json = False, config_path: ConfigPath = None, config_name: ConfigName = None) -> None:
    """Say whether this machine is fit for a run, one line a check with its fix. Exit status 1 when one fails."""
    from zerocfg.cli.doctor import doctor_command

    raise typer.Exit(doctor_command(overrides or [], as_json=as_json, config_path=config_path, config_name=config_name))
