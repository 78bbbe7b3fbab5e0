"""Inputs: what other people wrote is read within bounds, and refused in words beyond them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from perfguard.inputs import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_VALUES,
    Malformed,
    json_of,
    read_bytes,
    refuse_extremes,
    text_of,
    toml_of,
    yaml_of,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1, column 1: Expecting value"),
        ("{} {}", "line 1, column 4: Extra data"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": -Infinity}', "-Infinity is not a JSON number"),
        ('{"a": 1e999}', r"a number is inf, which is beyond ±1e\+150"),
        ('{"a": [-1.7e308]}', r"a number is -1\.7e\+308, which is beyond"),
        ("9" * (MAX_DIGITS + 1), r"the number 99999999999999999999\.\.\. has more than 150 digits"),
        ("9" * 5_000_000, "has more than 150 digits"),
        ('{"a": 1, "a": 2}', "an object has the key 'a' twice"),
        ('{"a": 1, "\\u0061": 2}', "an object has the key 'a' twice"),
        ('[{"b": [{"a": 1, "c": 2, "a": 1}]}]', "an object has the key 'a' twice"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "it is nested too deeply"),
        ('{"a":' * 500 + "1" + "}" * 500, "it is nested too deeply"),
        ("[" * 1_000_000, "it is nested too deeply"),
        ("[" + "1," * MAX_VALUES + "1]", "it has about 3000001 values, more than the 3000000 that are read"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_json_is_refused_in_words(text, words):
    with pytest.raises(Malformed, match=words) as raised:
        json_of(text)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    "text",
    ["[" * MAX_DEPTH + "]" * MAX_DEPTH, "9" * (MAX_DIGITS - 1), '{"a": 1, "A": 2, "b": {"a": 1}}', "[1e149, -1e-300]"],
    ids=["deep", "digits", "keys", "numbers"],
)
def test_what_is_within_the_bounds_is_read(text):
    assert json_of(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [("1e18", 10**18), ("-1e19", -(10**19)), ("1.0", 1.0), ("9007199254740992.0", 2.0**53), ("0.5", 0.5)],
)
def test_a_large_number_is_an_integer_however_it_is_written(text, number):
    found = json_of(text)
    assert found == number
    assert type(found) is type(number)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = \n", "Invalid value .at line 1, column 5."),
        ("a = 1\na = 2\n", "Cannot overwrite a value .at line 2, column 6."),
        ("a = " + "[" * 5000 + "]" * 5000, "it is nested too deeply"),
        ("a = " + "{a = " * 5000, "it is nested too deeply"),
        ("a = " + "9" * 5000, "digits"),
        ("a = -" + "9" * 400, "a number has more than 150 digits"),
        ("a = [{b = 1.7e308}]", r"a number is 1\.7e\+308, which is beyond"),
        ("a = " + "[" * 100 + "]" * 100, "it is nested too deeply"),
        (".".join("a" * 50_000) + " = 1", "line 1: a key has more than 64 parts"),
        ("x = 1\n[" + ".".join("a" * 50_000) + "]", "line 2: a key has more than 64 parts"),
        (" . ".join(['"a"'] * 50_000) + " = 1", "line 1: a key has more than 64 parts"),
        ("x = {" + ".".join(["'é'"] * 50_000) + " = 1}", "line 1: a key has more than 64 parts"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_toml_is_refused_in_words(text, words):
    with pytest.raises(Malformed, match=words) as raised:
        toml_of(text)
    assert len(str(raised.value)) < 300


#: What is read in a fraction of a second ends by then on any machine; what grows by the square takes hours.
_SECONDS = 100.0


@pytest.mark.parametrize(
    "text",
    [
        f"a = '{'x' * 1_000_000}'",
        'a = """' + '\\"' * 300_000 + '"""',
        "a = '''\n" + "it's \n" * 100_000 + "'''",
        f"{'x' * 1_000_000} = 1",
        "a = [" + "1.5, " * 200_000 + "]",
        f"{'.'.join(['a' * 15_000] * 50)} = 1",
    ],
    ids=["a long word", "escapes", "lines", "a long key", "numbers", "long parts"],
)
def test_what_is_long_is_read_at_once(text):
    begun_s = time.process_time()
    assert toml_of(text)
    assert time.process_time() - begun_s < _SECONDS


def test_a_key_of_some_parts_is_read():
    found = toml_of(".".join("a" * 40) + " = 1")
    for _ in range(40):
        found = found["a"]
    assert found == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- 1\n" * 700_000, "it has more than 100000 values"),
        ("[" + "1," * 700_000 + "]", "it has more than 100000 values"),
        ("{" + "a: 1, " * 3 + "}", "the key 'a' is there twice"),
        ("[" * 5000, "it is nested too deeply"),
        (
            "a: &a [x]\n" + "".join(f"b{n}: &b{n} {{<<: [*b{n - 1}, *b{n - 1}]}}\n" for n in range(1, 40)),
            "undefined alias",
        ),
        ("a: " + "9" * 400, "a number has more than 150 digits"),
        ("a: -1.7e+308", r"a number is -1\.7e\+308, which is beyond"),
        ("[" * 100 + "]" * 100, "it is nested too deeply"),
        ("a: &a [*a]", "it is nested too deeply"),
        ("a: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
    ],
    ids=lambda value: repr(value)[:20],
)
@pytest.mark.variants(1)
def test_what_is_no_yaml_is_refused_in_words(text, words):
    pytest.importorskip("yaml")
    with pytest.raises(Malformed, match=words) as raised:
        yaml_of(text)
    assert len(str(raised.value)) < 300


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 << 30)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Path.mkdir, "it is not a regular file"),
        (os.mkfifo, "it is not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "it is not a regular file"),
        (lambda path: path.write_bytes(b" " * 1025), "it is larger than 0 MiB"),
        (_sparse, "it is larger than 0 MiB"),
    ],
    ids=["a folder", "a pipe", "a device", "a byte too many", "a hole"],
)
def test_what_is_no_file_of_that_size_is_refused(tmp_path, make, words):
    make(tmp_path / "x")
    with pytest.raises(Malformed, match=words):
        read_bytes(tmp_path / "x", most=1024)


def test_a_file_without_a_size_is_bounded_as_well():
    # /proc says 0.
    assert os.stat("/proc/self/maps").st_size == 0
    with pytest.raises(Malformed, match="it is larger"):
        read_bytes(Path("/proc/self/maps"), most=100)


def test_a_text_is_utf_8_without_its_mark():
    assert text_of(b"\xef\xbb\xbfa") == "a"
    with pytest.raises(Malformed, match="it is not UTF-8: byte 1 is 0xff"):
        text_of(b"a\xff")


def test_the_values_of_other_tools_are_theirs():
    assert toml_of("a = inf\nb = [nan, 1979-05-27]\n")["a"] == float("inf")
    pytest.importorskip("yaml")
    assert yaml_of("a: .inf\nb: .nan\n")["a"] == float("inf")


def test_aliases_are_looked_at_once():
    pytest.importorskip("yaml")
    doubled = "".join(f"b{n}: &b{n} [*b{n - 1}, *b{n - 1}]\n" for n in range(1, 50))
    assert len(yaml_of("b0: &b0 [x]\n" + doubled)) == 50


@pytest.mark.parametrize("document", [(float("nan"),), {"a": ([float("inf")],)}, [10**150]])
def test_what_would_not_be_read_is_not_written(document):
    with pytest.raises(Malformed):
        refuse_extremes(document)


@pytest.mark.parametrize(("text", "kind"), [("1e30", float), ("1e17", int), ("-999999999999999999", int)])
def test_integers_have_as_many_digits_as_are_asked_for(text, kind):
    assert type(json_of(text, digits=18)) is kind
