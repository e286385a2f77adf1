"""MkDocs' hooks: pages from all over the repository, links between them, pictures of `rnnc explain`."""

import posixpath
import re
import shlex
import sys
import tempfile
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))
import generated
import links

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "ROADMAP.md": "roadmap.md",
}
PICTURE = re.compile(r"^<!-- picture (\S+\.html) -->$", re.M)
CELL = re.compile(r"^```rnn (\S+)\n(.*?)^```$", re.M | re.S)
MADE_BY = re.compile(r"^rnnc (explain (?:[^\n]*\\\n)*[^\n]*-o (\S+\.html))$", re.M)

FETCHED = re.compile(r'<(?:script|link|img|iframe)\b[^>]*(?:src|href)="(https?:[^"]*)"')

pages = {}  # place in the repository: page
folders = {}  # page: the folder that its links start from


def on_files(files, config):
    pages.clear()
    folders.clear()
    texts = {}
    for file in list(files.documentation_pages()):
        _add(file.src_uri, f"docs/{file.src_uri}", Path(file.abs_src_path).read_text(), texts)
    for place, page in DOCUMENTS.items():
        text = (ROOT / place).read_text()
        _add(page, place, text, texts)
        files.append(File.generated(config, page, content=text))
    for page, make in generated.PAGES.items():
        text = make(ROOT)
        _add(page, f"docs/{page}", text, texts)
        files.append(File.generated(config, page, content=text))
    _add_sources(files, config, texts)
    for text in texts.values():
        _add_pictures(files, config, text)
    return files


def _add(page, place, text, texts):
    pages[place] = page
    folders[page] = posixpath.dirname(place)
    texts[page] = text


def _add_sources(files, config, texts):
    """Pages of what pages link to."""
    wanted = {place for page, text in texts.items() for place in links.targets(text, folders[page])}
    for place in sorted(wanted - set(pages)):
        if not (ROOT / place).exists():
            raise PluginError(f"a page links to `{place}`, which is not there")
        text = links.source_page(ROOT, place)
        page = f"source/{place.removesuffix('.md')}.md" if place != "." else "source/folder.md"
        is_folder = (ROOT / place).is_dir()
        page = f"source/{place}/index.md" if is_folder else page
        pages[place] = page
        folders[page] = place if is_folder else posixpath.dirname(place)
        files.append(File.generated(config, page, content=text))


def _add_pictures(files, config, text):
    made_by = {name: command for command, name in MADE_BY.findall(text)}
    for name in PICTURE.findall(text):
        if name not in made_by:
            raise PluginError(f"no command on the page of the picture `{name}` makes it")
        words = shlex.split(made_by[name].replace("\\\n", " "))
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "examples").symlink_to(ROOT / "examples")
            for file, content in CELL.findall(text):
                (Path(folder) / file).write_text(content)
            generated.run(ROOT, words, folder)
            page = (Path(folder) / name).read_text()
        files.append(File.generated(config, f"pictures/{name}", content=page))


def on_page_markdown(markdown, page, config, files):
    name = page.file.src_uri
    markdown = links.rewritten(markdown, folders[name], name, pages)
    # The name of a block is its title.
    markdown = re.sub(r"^```(\w[\w-]*) ([\w.]+)$", r'```\1 title="\2"', markdown, flags=re.M)
    up = posixpath.relpath("pictures", posixpath.dirname(name))
    frame = rf'<iframe src="{up}/\1" title="\1" loading="lazy" style="width:100%;height:34rem;border:1px solid #8888"></iframe>'
    link = rf'<p><a href="{up}/\1">The whole page</a></p>'
    return PICTURE.sub(f"{frame}\n{link}", markdown)


def on_post_page(output, page, config):
    """Nothing is fetched from elsewhere."""
    fetched = FETCHED.search(output)
    if fetched:
        raise PluginError(f"{page.file.src_uri} fetches {fetched[1]}")
    return output
