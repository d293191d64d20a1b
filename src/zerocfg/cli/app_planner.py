"""Commands about plans: memory, plan, profile, calibrate."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from zerocfg.cli.app import ConfigName, ConfigPath, Json, Overrides

Plot = Annotated[
    Optional[str],  # noqa: UP045 - typer evaluates it on every Python
    typer.Option("--plot", metavar="FILE", help="Also draw it: PNG, SVG, PDF (needs matplotlib)."),
]


def add_to(app: typer.Typer) -> None:
    app.command("memory")(_memory)
    app.command("plan")(_plan)
    app.command("profile")(_profile)
    app.command("calibrate")(_calibrate)


def _memory(
    overrides: Overrides = None,
    as_json: Json = False,
    compare: Annotated[bool, typer.Option("--compare", help="Also what DeepSpeed's estimator and accelerate's rule say.")] = False,
    plot: Plot = None,
    config_path: ConfigPath = None,
    config_name: ConfigName = None,
) -> None:
    """Predict memory by part, on the GPU and on the host. Exit status: 0 it fits, 1 it does not."""
    from zerocfg.cli.memory import memory_command

    raise typer.Exit(
        memory_command(overrides or [], as_json=as_json, compare=compare, plot=plot, config_path=config_path, config_name=config_name)
    )


def _plan(
    overrides: Overrides = None,
    as_json: Json = False,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="Plans to show.")] = 5,
    measure: Annotated[int, typer.Option("--measure", metavar="K", min=0, help="Run the first K for a few steps, here.")] = 0,
    script: Annotated[str, typer.Option("--script", metavar="FILE", help="What --measure runs.")] = "train.py",
    plot: Plot = None,
    config_path: ConfigPath = None,
    config_name: ConfigName = None,
) -> None:
    """Rank the plans that fit by predicted speed.

    Prints the overrides to paste. What yours set stays as it is.
    """
    from zerocfg.cli.plan import plan_command

    raise typer.Exit(
        plan_command(
            overrides or [],
            as_json=as_json,
            top=top,
            measure=measure,
            script=script,
            plot=plot,
            config_path=config_path,
            config_name=config_name,
        )
    )


def _profile(
    target: Annotated[
        str, typer.Argument(metavar="SCRIPT.py|MODULE:FUNCTION", help="A script that calls run.build; or what builds the model.")
    ],
    overrides: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(metavar="OVERRIDES", help="As the script takes them."),
    ] = None,
    inputs: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--input",
            metavar="LENGTHxVOCAB|MODULE:FUNCTION",
            help="Token ids and targets of this shape, or a function of the samples. Default: the script's dims; 2048x32000 without one.",
        ),
    ] = None,
    dtype: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--dtype", metavar="bf16|fp16|fp32", help="Training dtype, bf16 by default; a script's is its precision."),
    ] = None,
    out: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--out", metavar="FILE.json", help="Also write the profile: model.profile=FILE.json predicts from it."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Trace your own model without a GPU.

    Prints parameters, FLOPs, activations a sample, the repeated block.
    """
    from zerocfg.cli.profile import profile_command

    raise typer.Exit(profile_command(target, overrides or [], inputs=inputs, dtype=dtype, out=out, as_json=as_json))


def _calibrate(
    gpus: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--gpus", metavar="N", min=1, help="Ranks. Default: every GPU; two without any."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure this machine once, for plan and auto to go by."""
    from zerocfg.cli.calibrate import calibrate_command

    raise typer.Exit(calibrate_command(gpus=gpus, as_json=as_json))
