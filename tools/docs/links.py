"""Links of Markdown files in the repository, as links between pages of the site."""

import posixpath
import re
from pathlib import Path

# Code, in which nothing is a link, or a link to a place in the repository.
TOKEN = re.compile(
    r"^```.*?^```$|`[^`\n]+`|"
    r"(?<!!)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]"
    r"\((?!https?:|mailto:|#)(?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)",
    re.M | re.S,
)


def targets(text, folder):
    """Places in the repository that a text in `folder` links to."""
    found = [m["target"] for m in TOKEN.finditer(text) if m["target"]]
    return [posixpath.normpath(posixpath.join(folder, target)) for target in found]


def rewritten(text, folder, page, pages):
    """`text`, of a file in `folder`, as the page `page`; `pages` has those of places in the repository.

    What has no page is no link any more.
    """

    def link(match):
        if not match["target"]:
            return match[0]
        place = posixpath.normpath(posixpath.join(folder, match["target"]))
        if place not in pages:
            return match["text"]
        target = posixpath.relpath(pages[place], posixpath.dirname(page))
        return f"[{match['text']}]({target}{match['anchor'] or ''})"

    return TOKEN.sub(link, text)


def source_page(root, place):
    """A file or folder of the repository as Markdown."""
    path = Path(root, place)
    if path.is_dir():
        readme = path / "README.md"
        names = "".join(f"- `{child.name}`\n" for child in sorted(path.iterdir()) if child.name[0] != ".")
        about = readme.read_text() if readme.exists() else f"# {place}\n"
        return f"{about}\n## Files\n\n{names}"
    if path.suffix == ".md":
        return path.read_text()
    if path.suffix in (".svg", ".png", ".npy", ".npz", ".safetensors"):
        return f"# {place}\n\nA file of {path.stat().st_size} bytes.\n"
    text = path.read_text()
    if len(text) > 100_000:
        return f"# {place}\n\nA file of {len(text)} characters.\n"
    kind = {".h": "c", ".hpp": "cpp", ".cpp": "cpp", ".py": "python", ".json": "json"}.get(
        path.suffix, "text"
    )
    return f"# {place}\n\n````{kind}\n{text}\n````\n"
