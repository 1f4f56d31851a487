"""Plain words: the prose of the package and of the pages has none of a short list that readers misread.

"Behind" reads as "before" where order is meant, so it is for lag alone. The others are vague, or are no words of the
field. Names of code are not looked at, nor what is in backticks.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.support.documents import PAGES, ROOT, prose

SOURCES = sorted((ROOT / "lakehouse_cdc").rglob("*.py"))

_NO_LAG = r"(?<!far )(?<!further )(?<!is )(?<!lags )(?<!left )(?<!done )(?<!be )"
# the word, where it is not allowed: what to write instead
INSTEAD = {
    rf"{_NO_LAG}behind(?! (?:its|the) (?:source|server))": "after",
    r"anew": "again",
    r"elsewise": "otherwise",
    r"amid": "during",
    r"mend(?:s|ed|ing)?": "fix, repair",
    r"whoever": "the caller, the reader",
    r"wished": "configured",
    r"(?:stands?|stood)(?! for| still|-|ing| in the way)": "is, exists",
    r"(?:told|tells|telling)(?! apart| \w+(?: \w+){0,6} apart| (?:so|otherwise))": "reports, shows, knows",
    r"(?:goes|go|went|going) on": "continues",
    r"(?:the|its|their|file's) begin(?= of\b| and\b|[,.;)])": "beginning, start",
    r"(?:comes?|came) true": "takes effect, is committed",
}
_CODE = re.compile(r"`[^`\n]*`")


def passages(path: Path) -> Iterator[str]:
    """What people read: the text of a page; of a module the comments, and strings of more than one word."""
    if path.suffix == ".md":
        yield prose(path)
        return
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and " " in token.string):
            yield re.sub(r"\{[^{}]*\}", "", token.string)


def forbidden(text: str) -> Iterator[str]:
    text = " ".join(re.sub(r"\n\s*# ?", "\n", _CODE.sub("X", text)).split())
    for word, better in INSTEAD.items():
        for found in re.finditer(rf"\b{word}\b", text, re.IGNORECASE):
            yield f"{text[max(found.start() - 40, 0) : found.end() + 40]!r}: {better}"


def test_the_prose_is_in_plain_words() -> None:
    found = {
        str(path.relative_to(ROOT)): wrong
        for path in [*SOURCES, *PAGES]
        if (wrong := [one for text in passages(path) for one in forbidden(text)])
    }
    assert found == {}


def test_a_word_of_the_list_is_noticed_and_an_exception_is_not() -> None:
    assert [*forbidden("DDL behind W")] == ["'DDL behind W': after"]
    assert [*forbidden("the table goes\n    on")] != []
    assert [*forbidden("how far it is behind; a name that stands for another; rows told apart; `behind`")] == []
