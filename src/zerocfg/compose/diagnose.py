"""Which overrides and files are wrong, all of them, and what can still be composed without them.

Runs only after a composition has failed. Order: syntax and sweeps, each override alone; group choices against the options; the
files, their bad values left out; the remaining choices one by one; the values one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from zerocfg.compose import messages
from zerocfg.compose.file_problems import file_problem, missing_primary
from zerocfg.compose.hydra_api import FAILURES, Loader, parse
from zerocfg.compose.nearest import nearest
from zerocfg.diagnostics import Diagnostic
from zerocfg.schema import GROUPS


@dataclass
class Salvaged:
    """What was found, and the composition without it (None when the base itself does not compose)."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    overrides: list[Any] = field(default_factory=list)
    """Parsed, good, in the user's order."""
    cfg: DictConfig | None = None


def parse_all(overrides: Sequence[str], loader: Loader) -> tuple[list[Any], list[Diagnostic]]:
    """Overrides that parse and are no sweeps; ZC113 and ZC116 for the rest."""
    good: list[Any] = []
    found: list[Diagnostic] = []
    for text in overrides:
        try:
            override = parse(text)
        except HydraException as error:
            found.append(messages.bad_syntax(text, error, [g for g in loader.groups() if text in loader.options(g)]))
            continue
        if override.is_sweep_override():
            found.append(messages.sweep(override))
        else:
            good.append(override)
    return good, found


def salvage(loader: Loader, config_name: str | None, overrides: Sequence[str]) -> Salvaged:
    """Compose what can be composed. Never raises for a user's mistake."""
    good, found = parse_all(overrides, loader)
    result = Salvaged(found)
    loader.lenient = True
    choices: list[Any] = []
    values: list[Any] = []
    for override in good:
        is_choice = not isinstance(override.value(), dict) and loader.is_group(override.key_or_group)
        (choices if is_choice else values).append(override)
    choices = [kept for choice in choices if (kept := _existing_option(loader, choice, result)) is not None]
    # hydra.searchpath has to be there while the files are looked for
    early = [o for o in values if o.key_or_group == "hydra.searchpath"]

    accepted = [*early, *choices]
    try:
        cfg = _compose(loader, config_name, accepted)
    except FAILURES:
        accepted = early
        try:
            cfg = _compose(loader, config_name, accepted)
        except FAILURES as error:
            result.diagnostics.append(missing_primary(config_name, error) or file_problem(error, loader))
            return result
        for override in choices:
            try:
                cfg = _compose(loader, config_name, [*accepted, override])
            except FAILURES as error:
                result.diagnostics.append(messages.failed_override(override, error, loader, cfg))
            else:
                accepted.append(override)
    for override in values:
        if override in early:
            continue
        try:
            loader.apply(override, cfg)
        except FAILURES as error:
            result.diagnostics.append(messages.failed_override(override, error, loader, cfg))
        else:
            accepted.append(override)
    order = {override.input_line: i for i, override in enumerate(good)}
    result.overrides = sorted(accepted, key=lambda o: order.get(o.input_line, -1))
    try:
        # once more from the start: a value that failed may have left a trace
        result.cfg = _compose(loader, config_name, result.overrides)
    except FAILURES as error:
        result.diagnostics.append(file_problem(error, loader))
        return result
    result.diagnostics += _open_choices(loader, result.cfg)
    return result


def _compose(loader: Loader, config_name: str | None, overrides: Sequence[Any]) -> DictConfig:
    return loader.compose(config_name, [o.input_line for o in overrides], skip_open=True)


def _existing_option(loader: Loader, override: Any, result: Salvaged) -> Any:
    """The override itself, one with the nearest option in place of a wrong one (so that later passes see what was meant), or None."""
    value = override.value()
    if override.is_delete() or value is None:
        return override
    names = [str(v) for v in value] if isinstance(value, list) else [str(value)]
    options = loader.options(override.key_or_group)
    wrong = [name for name in names if name not in options and name.removesuffix(".yaml") not in options]
    if not wrong and isinstance(value, (str, list)):
        return override
    meant = nearest(names[0].rpartition(".")[2] if names[0].endswith(".yaml") else names[0], options)
    result.diagnostics.append(messages.unknown_option(override, wrong or names, options, meant, loaded=override.key_or_group in GROUPS))
    return parse(f"{override.get_key_element()}={meant[0]}") if meant and not isinstance(value, list) else None


def _open_choices(loader: Loader, cfg: DictConfig) -> list[Diagnostic]:
    """ZC118 for each group whose choice is ???."""
    known = cast("dict[str, Any]", OmegaConf.to_container(cfg.hydra.runtime.choices, resolve=False))
    found = []
    for name, option in known.items():
        if option == "???":
            options = loader.options(name.partition("@")[0])
            found.append(
                Diagnostic(
                    code="ZC118",
                    path=name,
                    message=f"{name} is left open (???): choose an option",
                    detail=(f"options: {', '.join(options)}",),
                    hint=f"{name}={options[0] if options else 'OPTION'}",
                )
            )
    return found
