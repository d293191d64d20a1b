"""Bytes -> mapping: what DeepSpeed reads is read, and each mistake is told once, with its place."""

from __future__ import annotations

import contextlib
import json

import hjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerocfg.deepspeed.importer.read import DEEPEST, LARGEST_BYTES, MOST_VALUES, parse
from zerocfg.diagnostics import ConfigProblems

BAD = [
    (b"", "ZC910", "1:1: the file is empty"),
    (b" \n\t\n", "ZC910", "1:1: the file is empty"),
    (b"\xef\xbb\xbf{}", "ZC910", "1:1: the file starts with a byte order mark"),
    ('{"a": 1}'.encode("utf-16"), "ZC910", "1:1: the file starts with a byte order mark"),
    (b'{\n  "a": "\xff"}', "ZC910", "2:9: byte 0xff is not UTF-8"),
    (b" " * (LARGEST_BYTES + 1), "ZC910", f"1:1: more than {LARGEST_BYTES} bytes: too large for a config"),
    (b"[1, 2]", "ZC911", "1:1: the file holds a list, not an object"),
    (b'"text"', "ZC911", "1:1: the file holds a text, not an object"),
    (b"3", "ZC911", "1:1: the file holds a number, not an object"),
    (b"null", "ZC911", "1:1: the file holds null, not an object"),
    (b"train_batch_size: 8\nfp16:\n  enabled: true\n", "ZC911", "1:1: not JSON: this looks like YAML"),
    (b"# a comment\n---\ntrain_batch_size: 8\n", "ZC911", "1:1: not JSON: this looks like YAML"),
    (b"<html></html>", "ZC911", "1:1: not JSON: an object starts with {"),
    (b'{"a": 1} {"b": 2}', "ZC911", "1:10: not JSON: Extra data"),
    (b'{"a": 1', "ZC911", "1:8: not JSON: Expecting ',' delimiter"),
    (b'{\n  "a": tru}', "ZC911", "2:8: not JSON: Expecting value"),
    (b'{\n  # why\n  "a": {\n}', "ZC911", "4:2: not JSON: Bad key name (eof)"),
    (b'{\n  "a": 1, /* why\n}', "ZC911", "2:11: not JSON: a comment or text that begins here is never closed"),
    (b'{"a": "\\ud800"}', "ZC911", "1:8: half of a surrogate pair is no text"),
    (b'{\n  "a": 1,\n  "b": {"a": 2},\n  "a": 3}', "ZC912", "4:3: the key 'a' stands twice in one object"),
    (b'{"x": {"a": 1, "\\u0061": 2}}', "ZC912", "1:16: the key 'a' stands twice in one object"),
    (b"{a: 1\na: 2}", "ZC912", "2:1: the key 'a' stands twice in one object"),
    (b'{\n  "a": NaN}', "ZC913", "2:8: NaN is no number to train with"),
    (b'{"NaN": "Infinity", "b": [1, -Infinity]}', "ZC913", "1:30: -Infinity is no number to train with"),
    (b"{a: NaN\n}", "ZC913", "1:5: NaN is no number to train with"),
    (b'{"a": 1e999}', "ZC913", "1:7: 1e999 is no number to train with"),
    (b'{"a": ' + b"9" * 5000 + b"}", "ZC913", "1:7: " + "9" * 40 + " is no number to train with"),
    (b"{a: " + b"9" * 5000 + b"}", "ZC913", "1:2: a number with thousands of digits"),
    (b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}", "ZC914", f"1:{6 + DEEPEST}: more than {DEEPEST} levels of nesting"),
    (json.dumps(dict.fromkeys(map(str, range(MOST_VALUES + 1)))).encode(), "ZC914", f"more than {MOST_VALUES} keys"),
    (
        b'{\n  "train_batch_size": CONFIG_BATCH,\n  "b": 1}',
        "ZC915",
        "2:23: 'CONFIG_BATCH,' without quotes is a place still to be filled in",
    ),
    (b'{\n  "b": 1,\n  "train_batch_size": <BATCH>\n}', "ZC915", "3:23: '<BATCH>' without quotes is a place still to be filled in"),
    (b'{"a": "???"}', "ZC915", "1:8: ??? is a value still to be filled in"),
]


@pytest.mark.parametrize(("data", "code", "message"), BAD, ids=[f"{code}-{message[:30]}" for _, code, message in BAD])
def test_a_bad_file_is_one_error_with_its_place(data: bytes, code: str, message: str) -> None:
    with pytest.raises(ConfigProblems) as caught:
        parse(data, "my file.json")
    (problem,) = caught.value.diagnostics
    assert (problem.code, problem.path) == (code, "my file.json")
    assert problem.message.startswith("my file.json:")
    assert problem.message.endswith(message)
    assert problem.hint


LENIENT = [
    (b'{"a": 5,}', {"a": 5}),
    (b'{ // why\n "a": [1, 2,],\n /* and\n that */ "b": "x # y" # z\n}', {"a": [1, 2], "b": "x # y"}),
    (b"# first\n{\n  optimizer: {\n    type: AdamW\n    lr: 1e-4\n  }\n}", {"optimizer": {"type": "AdamW", "lr": 1e-4}}),
    (b"{'a': 'b'}", {"a": "b"}),
    (b'{"csv": {"path": /home/me/runs\n}}', {"csv": {"path": "/home/me/runs"}}),
    (b'{"a": {}, "b": []}', {"a": {}, "b": []}),
    ('{"a": "ü", "b": "\\ud83d\\ude00"}'.encode(), {"a": "ü", "b": "😀"}),
]  # fmt: skip


@pytest.mark.parametrize(("data", "wanted"), LENIENT, ids=str)
def test_what_deepspeed_reads_is_read(data: bytes, wanted: dict[str, object]) -> None:
    assert parse(data, "f") == wanted == json.loads(json.dumps(hjson.loads(data.decode())))


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.text(max_size=5), values, max_size=4).filter(lambda made: "???" not in str(made)))
def test_any_json_object_is_read_as_json_does(config: dict[str, object]) -> None:
    assert parse(json.dumps(config).encode(), "f") == config


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=40) | st.text("{}[]\"':,#/*a1-e. \n", max_size=30).map(str.encode))
def test_any_bytes_end_in_a_mapping_or_one_problem(data: bytes) -> None:
    problems: list[object] = []
    with contextlib.suppress(ConfigProblems):
        try:
            assert isinstance(parse(data, "f"), dict)
        except ConfigProblems as problem:
            problems = [*problem.diagnostics]
            raise
    assert len(problems) <= 1
