"""The typer app: help, completion, wrong usage. Plain command lines do not come here (see quick.py)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Optional

import typer

from zerocfg import __version__
from zerocfg.cli.completion import complete_override
from zerocfg.cli.pages import Commands

app = typer.Typer(
    name="zerocfg",
    cls=Commands,
    help="Compile Hydra config groups into a DeepSpeed JSON, torchrun arguments and an environment. A new project: zerocfg init DIR.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Overrides = Annotated[
    Optional[list[str]],  # noqa: UP045 - typer evaluates it on every Python
    typer.Argument(metavar="OVERRIDES", help="As on train.py's command line: group=option, key=value.", autocompletion=complete_override),
]
Words = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Argument(metavar="KEY OVERRIDES", help="A path or the start of one, then overrides.", autocompletion=complete_override),
]
ConfigPath = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--config-path",
        metavar="DIR",
        help="Folder of your primary config, from here. Default: conf where its config.yaml names zerocfg, else the packaged groups.",
    ),
]
ConfigName = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--config-name", metavar="NAME", help="Primary config without .yaml. Default: config, else zerocfg."),
]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, errors too.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that differ.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"zerocfg {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")] = False,
) -> None:
    pass


@app.command("compile")
def _compile(
    overrides: Overrides = None,
    out: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--out", metavar="DIR", help="Also write DIR/compiled: ds_config.json, launch.sh and the rest."),
    ] = None,
    target: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--target", metavar="local|slurm", help="slurm: print the sbatch script; OUT/sbatch.sh with --out."),
    ] = None,
    force: Force = False,
    as_json: Json = False,
    config_path: ConfigPath = None,
    config_name: ConfigName = None,
) -> None:
    """Print the DeepSpeed JSON, torchrun arguments, environment."""
    from zerocfg.cli.compile import compile_command

    raise typer.Exit(
        compile_command(
            overrides or [], out=out, target=target, force=force, as_json=as_json, config_path=config_path, config_name=config_name
        )
    )


@app.command("check")
def _check(overrides: Overrides = None, as_json: Json = False, config_path: ConfigPath = None, config_name: ConfigName = None) -> None:
    """Report every problem of a config at once. Exit status: 0 no error, 1 errors."""
    from zerocfg.cli.check import check_command

    raise typer.Exit(check_command(overrides or [], as_json=as_json, config_path=config_path, config_name=config_name))


@app.command("explain")
def _explain(words: Words = None, config_path: ConfigPath = None, config_name: ConfigName = None) -> None:
    """Say which file, override or rule decided each value."""
    from zerocfg.cli.explain import explain_command

    raise typer.Exit(explain_command(words or [], config_path=config_path, config_name=config_name))


@app.command("launch")
def _launch(
    context: typer.Context,
    overrides: Overrides = None,
    target: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--target", metavar="local|slurm", help="Where to run. Default: hydra/launcher, which is local."),
    ] = None,
    out: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--out", metavar="DIR", help="The job's folder: compiled/, rank_0.log, ... Default: outputs/DATE/TIME."),
    ] = None,
    config_path: ConfigPath = None,
    config_name: ConfigName = None,
) -> None:
    """Run a script that does not use Hydra.

    After the overrides: -- SCRIPT.py ARGUMENTS, or -- -m MODULE ARGUMENTS.

    {ds_config} in the arguments becomes the path of the compiled JSON, which is in ZEROCFG_DS_CONFIG as well.
    """
    from zerocfg.cli.launch import launch_command

    if not context.obj:
        raise typer.BadParameter("the script is missing: zerocfg launch OVERRIDES -- SCRIPT.py ARGUMENTS")
    raise typer.Exit(launch_command(overrides or [], context.obj, target=target, out=out, config_path=config_path, config_name=config_name))


@app.command("jobs")
def _jobs(
    directory: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="DIR", help="hydra.sweep.dir. Default: this folder, else the newest sweep below outputs/."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show states and results of a sweep's jobs, SLURM's too."""
    from zerocfg.cli.jobs import jobs_command

    raise typer.Exit(jobs_command(directory, as_json=as_json))


@app.command("import", context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False})
def _import(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A DeepSpeed JSON; comments and trailing commas as DeepSpeed reads them.")],
    world_size: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--world-size", metavar="N", min=1, help="Ranks it runs on, for numbers that depend on them."),
    ] = None,
    model: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--model", metavar="OPTION|PATH", help='Option of the group model, or a Hugging Face config.json: decides "auto" sizes.'
        ),
    ] = None,
    write: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--write", metavar="conf/experiment/NAME.yaml", help="Also write an experiment file."),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Turn a DeepSpeed JSON into overrides; account for every key.

    After FILE also the Trainer's and the launcher's arguments, which decide each "auto": --per_device_train_batch_size 8 --bf16
    --num_gpus 8. What follows -- may hold the script's own arguments too.
    """
    from zerocfg.cli.import_ import WrongUsage, import_command, read_line

    if {"-h", "--help"} & set(context.args):
        print(context.get_help())
        raise typer.Exit()
    try:
        line = read_line(context.args)
        size = line.options.get("--world-size", world_size)
        if size is not None and (not str(size).isascii() or not str(size).isdigit() or int(size) < 1):
            raise WrongUsage(f"--world-size {size} is not a number of ranks")
    except WrongUsage as wrong:
        raise typer.BadParameter(str(wrong)) from None
    raise typer.Exit(
        import_command(
            file,
            world_size=None if size is None else int(size),
            model=line.options.get("--model", model),  # type: ignore[arg-type]
            write=line.options.get("--write", write),  # type: ignore[arg-type]
            force=force or "--force" in line.options,
            as_json=as_json or "--json" in line.options,
            arguments=line.arguments,
            script=line.script,
        )
    )


@app.command("diff")
def _diff(
    first: Annotated[str, typer.Argument(metavar="A", help="A DeepSpeed JSON, or overrides in quotes.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The same.")],
    world_size: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--world-size", metavar="N", min=1, help="Ranks that a JSON runs on."),
    ] = None,
    as_json: Json = False,
    config_path: ConfigPath = None,
    config_name: ConfigName = None,
) -> None:
    """Show what changes for the run, after DeepSpeed's defaults. Exit status: 0 the same, 1 different, 2 trouble."""
    from zerocfg.cli.diff import diff_command

    raise typer.Exit(diff_command(first, second, world_size=world_size, as_json=as_json, config_path=config_path, config_name=config_name))


@app.command("schema")
def _schema(
    part: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="config|deepspeed", help="Default: both, in one schema."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the groups' fields and DeepSpeed's keys. --json: a JSON Schema for editors."""
    from zerocfg.cli.schema import PARTS, schema_command

    if part not in (None, *PARTS):
        raise typer.BadParameter(f"{part} is neither {' nor '.join(PARTS)}")
    raise typer.Exit(schema_command(part, as_json=as_json))


@app.command("init")
def _init(directory: Annotated[str, typer.Argument(metavar="DIR", help="Folder of the new project.")] = ".", force: Force = False) -> None:
    """Write a starter train.py and conf/config.yaml."""
    from zerocfg.cli.init import init_command

    raise typer.Exit(init_command(directory, force=force))


from zerocfg.cli import app_machine, app_planner, app_runs  # noqa: E402 - their commands use the types above

app_machine.add_to(app)
app_planner.add_to(app)
app_runs.add_to(app)


def run(words: Sequence[str]) -> int:
    """Exit status of a command line."""
    script: list[str] = []
    if words[:1] == ["launch"] and "--" in words:
        # what follows is the script's, options too
        at = words.index("--")
        words, script = words[:at], list(words[at + 1 :])
    try:
        app(args=list(words), prog_name="zerocfg", obj=script)
    except SystemExit as end:
        if not words and "_ZEROCFG_COMPLETE" not in os.environ:
            return 2  # click before 8.2 takes a line without a command for a wish for help
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
