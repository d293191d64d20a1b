"""Values of the wrong type, outside their limits, or not among the choices."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from zerocfg.deepspeed.keys import Key
from zerocfg.deepspeed.rules import Finding, rule
from zerocfg.deepspeed.values import Judgement, Outcome
from zerocfg.deepspeed.view import Item, View, shown
from zerocfg.diagnostics import Severity

WHY: dict[str, str] = {
    "gradient_clipping": "a negative value trains without clipping, in silence",
    "steps_per_print": "the engine divides by it",
    "fp16.hysteresis": "DeepSpeed accepts it and halves the scale at every overflow",
}
"""What happens where DeepSpeed itself does not refuse a value outside the limits."""


def _with(view: View, outcome: Outcome) -> Iterator[tuple[Item, Key, Judgement]]:
    for item in view.items:
        if item.key is not None and item.judgement is not None and item.judgement.outcome is outcome:
            yield item, item.key, item.judgement


def _kinds(key: Key) -> str:
    words = {
        "bool": "true or false",
        "int": "a whole number",
        "float": "a number",
        "str": "text",
        "path": "a path",
        "list": "a list",
        "list[str]": "a list of texts",
        "null": "null",
        "unwritable": "an object of Python, which JSON cannot hold",
    }
    return " or ".join(words.get(kind, kind) for kind in key.kinds)


def _meant(key: Key, value: object) -> object:
    """The value that was probably meant; None when there is no guess."""
    if isinstance(value, str):
        text = value.strip().lower()
        if "bool" in key.kinds and text in ("true", "false"):
            return text == "true"
        if {"int", "float"} & set(key.kinds):
            try:
                number = float(text)
            except ValueError:
                return None
            return int(number) if number.is_integer() and "float" not in key.kinds else number
    if isinstance(value, int | float) and not isinstance(value, bool) and "str" in key.kinds:
        return str(value)
    return None


def _hint(view: View, item: Item, key: Key) -> str:
    meant = _meant(key, item.value)
    if meant is not None:
        return view.assign(item.written, meant)
    return ""


@rule("ZC620", "a value of a type that DeepSpeed refuses")
def refused_type(view: View) -> Iterator[Finding]:
    for item, key, _ in _with(view, Outcome.REFUSED):
        yield Finding(item.written, f"must be {_kinds(key)}", hint=_hint(view, item, key))


@rule("ZC621", "a value that DeepSpeed takes for another one")
def coerced_value(view: View) -> Iterator[Finding]:
    for item, key, judged in _with(view, Outcome.COERCED):
        yield Finding(
            item.written,
            f"should be {_kinds(key)}: {judged.reason}",
            hint=view.assign(item.written, judged.value),
            severity=Severity.WARNING,
        )


@rule("ZC622", "a value of the wrong type that DeepSpeed does not check and uses as it is")
def unchecked_type(view: View) -> Iterator[Finding]:
    for item, key, _ in _with(view, Outcome.KEPT):
        yield Finding(item.written, f"must be {_kinds(key)}; DeepSpeed does not check it", hint=_hint(view, item, key))


@rule("ZC623", '"auto" where nothing fills it in: only Hugging Face replaces it before DeepSpeed starts')
def unresolved_auto(view: View) -> Iterator[Finding]:
    for item, key, _ in _with(view, Outcome.AUTO):
        text = (
            f"is dropped: DeepSpeed would use {shown(key.default)}"
            if key.reader == "model"
            else "stays the text: DeepSpeed does not know it"
        )
        hint = "the number" if {"int", "float"} & set(key.kinds) else "the value"
        if key.default is not None and not key.is_section:
            hint += f", such as {view.assign(item.written, key.default)}"
        hint += f", or remove {view.full(item.written)}"
        yield Finding(item.written, text, hint=hint)


@rule("ZC624", "NaN or infinity")
def not_finite(view: View) -> Iterator[Finding]:
    for item, _, _ in _with(view, Outcome.NONFINITE):
        yield Finding(item.written, "is no number to train with", hint=f"write a finite number, or remove {view.full(item.written)}")


@rule("ZC625", "a number outside its limits")
def outside_limits(view: View) -> Iterator[Finding]:
    for item, key, judged in _with(view, Outcome.LIMIT):
        why = (WHY[item.path],) if item.path in WHY else ()
        hint = view.assign(item.written, key.default) if key.default is not None else ""
        yield Finding(item.written, judged.reason, detail=why, hint=hint)


@rule("ZC626", "a value that is none of the choices")
def not_a_choice(view: View) -> Iterator[Finding]:
    for item, key, _ in _with(view, Outcome.CHOICE):
        choices = [str(choice) for choice in key.choices]
        near = get_close_matches(str(item.value).casefold(), [choice.casefold() for choice in choices], n=2, cutoff=0.5)
        best = [view.assign(item.written, choice) for choice in key.choices if str(choice).casefold() in near]
        silent = key.path in ("tensor_parallel.preset_model",)
        text = "is none of the choices" + (": DeepSpeed goes on without it, in silence" if silent else "")
        if isinstance(item.value, list):
            hint = "a list of " + ", ".join(choices)
        else:
            hint = " or ".join(best) or f"{view.assign(item.written, key.choices[0])}, or another of the choices"
        yield Finding(item.written, text, detail=("choices: " + ", ".join(choices),), hint=hint)


@rule("ZC627", "a fractional number where DeepSpeed counts in whole ones")
def fractional(view: View) -> Iterator[Finding]:
    for item, _, _ in _with(view, Outcome.FRACTION):
        value = item.value
        hint = view.assign(item.written, round(value) or 1) if isinstance(value, float) else ""
        yield Finding(item.written, "must be a whole number", hint=hint)
