"""The screen: its width, characters, colours and verbosity."""

from __future__ import annotations

import codecs
import io
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TextIO

#: Replacements of characters that an encoding lacks; all others are escaped.
_IN_ASCII = dict.fromkeys("−–—", "-") | dict.fromkeys("‘’", "'") | dict.fromkeys("“”", '"')
_IN_ASCII |= {"→": "->", "←": "<-", "…": "...", "±": "+-", "×": "x", "≤": "<=", "≥": ">=", "≈": "~", "µ": "u", "·": "."}
#: The handlers' names, as `open(errors=...)` takes them: for text, and for JSON.
IN_ASCII = "perfguard-ascii"
_IN_JSON = "perfguard-json"
#: Python's defaults for what cannot be encoded; any other handler was chosen, and is kept.
_DEFAULTS = ("strict", "surrogateescape", "backslashreplace")

#: Select Graphic Rendition (ECMA-48, 8.3.117).
_RED, _GREEN, _YELLOW, _MAGENTA, _DIM = "31", "32", "33", "35", "2"
_BOLD = ";1"
_OUTCOMES = {"PASSED": _GREEN, "CHANGED": _YELLOW, "FAILED": _RED, "INVALID": _MAGENTA, "INCONCLUSIVE": _YELLOW}
_REFRESHES = {"created": _GREEN, "updated": _GREEN, "refused": _RED}
_TRENDS = {"WORSE": _RED, "creeps": _YELLOW}

_CODE = re.compile(r"(?:^\s*|^perfguard: +|(?<=: ))([ABCIRSU]\d{3})( \((?:warning|note)\))?(?= )")
_WORD = re.compile(
    rf"(?:^\s*|^perfguard: |(?<=perfguard ))(?:({'|'.join(_OUTCOMES)})(?=[ :]|$)|({'|'.join(_REFRESHES)})(?=: |  ))"
)
_TREND = re.compile(rf"^\s*({'|'.join(_TRENDS)})(?= )|(?<= )(creeps)(?= since )")
_PART = re.compile(r"^\s+((?!\+0\.0 )[+−-]\d+\.\d us)(?=  )")
_COUNT = re.compile(r"\b[1-9]\d* (worse|better|changed)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """The terminal that shows a report. A log, or a pipe, has no width and no colours.

    `verbosity` is as pytest counts it: -1 for -q, 1 for -v.
    """

    width: int | None = None
    colours: bool = False
    encoding: str = "utf-8"
    verbosity: int = 0

    @property
    def is_quiet(self) -> bool:
        """Whether to show failures only."""
        return self.verbosity < 0

    @property
    def is_verbose(self) -> bool:
        """Whether to show every detail."""
        return self.verbosity > 0

    @property
    def ellipsis(self) -> str:
        """The mark of a cut."""
        return self.carried("…")

    def carried(self, text: str) -> str:
        """Return lines in the screen's characters: `→` may become `->`, others are escaped.

        Whatever is in them, a terminal obeys none of it, and GitHub's runner takes no line for a command.
        """
        text = "\n".join(map(_without_command, map(printable, text.split("\n"))))
        return text.encode(self.encoding, IN_ASCII).decode(self.encoding)

    def painted(self, text: str) -> str:
        """Return the lines with colours: outcomes, codes, parts of a ledger, counts."""
        return "\n".join(map(_painted, text.split("\n"))) if self.colours else text

    def shown(self, text: str) -> str:
        """Return the text as the screen can show it."""
        return self.painted(self.carried(text))


#: A log: whole lines, nothing cut, no colours.
LOG = Screen()


def _painted(line: str) -> str:
    code, word = _CODE.search(line), _WORD.search(line)
    if code is not None and code[2] == " (note)":
        return _in(_DIM, line)
    # From the right to the left, so that places stay where they are.
    if code is not None:
        line = _within(line, code.start(1), code.end(), _YELLOW if code[2] else _RED)
    if word is not None:
        at, colour = (1, _OUTCOMES[word[1]] + _BOLD) if word[1] else (2, _REFRESHES[word[2]])
        return _within(line, *word.span(at), colour)
    if (trend := _TREND.search(line)) is not None:
        at = 1 if trend[1] else 2
        return _within(line, *trend.span(at), _TRENDS[trend[at]])
    if (part := _PART.search(line)) is not None:
        return _within(line, *part.span(1), _RED if part[1].startswith("+") else _GREEN)
    if " compared: " in line:
        return _COUNT.sub(lambda found: _in(_RED if found[1] == "worse" else _GREEN, found[0]), line)
    return line


def _in(colour: str, text: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m"


def _within(line: str, begin: int, end: int, colour: str) -> str:
    return line[:begin] + _in(colour, line[begin:end]) + line[end:]


# -- streams ----------------------------------------------------------------------------------------------------


def screen_of(stream: TextIO, *, colours: bool | None = None, verbosity: int = 0) -> Screen:
    """Return the screen of a stream; with `colours` None a terminal has them and a file does not."""
    return Screen(
        width=width_of(stream),
        colours=_has_colours(stream) if colours is None else colours,
        encoding=getattr(stream, "encoding", None) or "utf-8",
        verbosity=verbosity,
    )


def width_of(stream: TextIO | None) -> int | None:
    """Return how wide a stream is: COLUMNS, else the terminal's; one that does not say has 80, a log has none."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isascii() and asked.isdigit() and int(asked):
        return int(asked)
    if not is_terminal(stream):
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80  # type: ignore[union-attr]
    except (OSError, ValueError):
        return 80


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; None and closed streams are not."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def requested_colours(environment: Mapping[str, str]) -> bool | None:
    """Return what NO_COLOR (no-color.org) and FORCE_COLOR (force-color.org) request; None without both."""
    if environment.get("NO_COLOR"):
        return False
    return True if environment.get("FORCE_COLOR") else None


def _has_colours(stream: TextIO) -> bool:
    requested = requested_colours(os.environ)
    return is_terminal(stream) and os.environ.get("TERM") != "dumb" if requested is None else requested


# -- foreign text --------------------------------------------------------------------------------------------------------

#: What makes a cell a formula, and what is a number nevertheless.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|nan)", re.ASCII | re.IGNORECASE)
#: Longest value of a configuration in a message, in characters.
_LONGEST_SHOWN = 60
#: What GitHub's runner obeys in a log: `::` at the beginning of a line after blanks, `##[` anywhere (actions/runner,
#: src/Runner.Common/ActionCommand.cs).
_COMMAND = re.compile(r"^( *):(?=:)|(?<=##)\[")


def printable(text: str) -> str:
    """Return a text of any origin as one line: control characters, surrogates and marks of direction are escaped.

    Everything that perfguard did not write itself goes through here where it becomes part of a line.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shortened(name: str, width: int = 60) -> str:
    """Cut the beginning of a long name, which matters least."""
    return name if len(name) <= width else "…" + name[-(width - 1) :]


def cut(text: str, width: int) -> str:
    """Cut the end of a long text."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


class _Written(reprlib.Repr):
    """Values as YAML, JSON and TOML write them, also those that a call in Python gives: one wording for both."""

    def repr_bool(self, value: bool, _: int) -> str:
        return "true" if value else "false"

    def repr_NoneType(self, _: None, __: int) -> str:
        return "null"


def shown(value: object) -> str:
    """Return a value as messages show it: short, in one line, with null, true and false as YAML, JSON and TOML write them."""
    short = _Written()
    short.maxlevel = short.maxlist = short.maxdict = 4
    short.maxstring = short.maxother = short.maxlong = _LONGEST_SHOWN
    return one_line(short.repr(value))


def one_line(text: str) -> str:
    """Return a text in one line: spaces in place of line breaks, and what a terminal would obey is escaped."""
    return printable("".join(" " if one.isspace() else one for one in text))


def csv_cell(text: str) -> str:
    """Return a cell of a CSV file that no spreadsheet takes for a formula; a number stays one.

    Source: OWASP, "CSV Injection".
    """
    return f"'{text}" if text.startswith(_FORMULA) and _NUMBER.fullmatch(text) is None else text


def _without_command(line: str) -> str:
    if "::" not in line and "##[" not in line:
        return line
    return _COMMAND.sub(lambda found: r"\x5b" if found[0] == "[" else rf"{found[1]}\x3a", line)


# -- characters ----------------------------------------------------------------------------------------------------------


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(_IN_ASCII.get(c) or c.encode("ascii", "backslashreplace").decode() for c in lost), error.end


def _in_json(error: UnicodeError) -> tuple[str, int]:
    """Escape as JSON does (RFC 8259, 7): only its strings hold other characters than ASCII."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return _json_escapes(error.object[error.start : error.end]), error.end


def _json_escapes(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


codecs.register_error(IN_ASCII, _in_ascii)
codecs.register_error(_IN_JSON, _in_json)


def json_for(stream: TextIO, text: str) -> str:
    """Return the same JSON document in the characters of a stream; a terminal gets no character that it would obey."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    if is_terminal(stream):
        text = "".join(c if c.isprintable() or c == "\n" else _json_escapes(c) for c in text)
    return text.encode(encoding, _IN_JSON).decode(encoding)


@contextmanager
def written_in_ascii(streams: Iterable[TextIO]) -> Iterator[None]:
    """Let streams write characters that their encoding lacks in ASCII, instead of failing; afterwards as before."""
    with ExitStack() as stack:
        for stream in streams:
            stack.callback(put_right(stream))
        yield


def put_right(stream: TextIO) -> Callable[[], None]:
    """Let one stream write so, and return a function that undoes it."""
    # Other streams, such as click's of a Windows console, take every character.
    errors = getattr(stream, "errors", None)
    if not isinstance(stream, io.TextIOWrapper) or errors not in _DEFAULTS:
        return lambda: None
    stream.reconfigure(errors=IN_ASCII)
    return lambda: None if stream.closed else stream.reconfigure(errors=errors)
