"""What a source's includes declare, found in the text: quick, and blind to what has no name, such as
a type that must be complete. Names are those of namespaces and of macros.
"""

import functools
import pathlib
import re

from tidy import ALIAS, CONSTANT, FUNCTION, TYPE, own_names

INCLUDE = re.compile(r'^#include (["<][^">]+)[">]', re.MULTILINE)
MACRO = re.compile(r"^#define (\w+)", re.MULTILINE)
DECLARATION = re.compile(r"(?:struct|class|union) \w+;")  # which leaves a type incomplete
TEMPLATE = re.compile(r"^template <.*?> (?=\w)", re.MULTILINE)
# Comments, and what is no name of rnnc: strings' texts, names of other libraries, members.
NO_MENTION = re.compile(r"""//.*|"(?:[^"\\\n]|\\.)*"|\b(?:std|fmt|testing)::\w+|(?:\.|->)\w+""")


@functools.cache
def headers_of(path):
    """What a file of this repository includes, and what that does; headers of others as <name."""
    headers = set()
    for name in INCLUDE.findall(pathlib.Path(path).read_text()):
        if pathlib.Path(name[1:]).exists():
            headers |= headers_of(name[1:]) | {name[1:]}
        else:
            headers.add("<" + name[1:])
    return headers


@functools.cache
def declared_by(header):
    """The names that come with a header; of one of others its own, as <mutex> has `mutex`."""
    if header.startswith("<"):
        return {pathlib.Path(header[1:]).stem}
    text = TEMPLATE.sub("", pathlib.Path(header).read_text())
    names = set(MACRO.findall(text)) | {a or b for a, b, _ in ALIAS.findall(text)}
    for line in text.splitlines():
        if DECLARATION.match(line):
            continue
        for pattern in (TYPE, CONSTANT, FUNCTION):
            if match := pattern.match(line):
                names.add(match[1])
    return names


def missing_of(source, beside):
    """Names that a source mentions, and none of its headers declares but some of `beside`."""
    text = pathlib.Path(source).read_text()
    mine = headers_of(source)
    others = set().union(*map(declared_by, beside - mine))
    mentioned = set(re.findall(r"\w+", NO_MENTION.sub("", text)))
    return mentioned & others - own_names(text) - set().union(*map(declared_by, mine))
