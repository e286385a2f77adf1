#!/usr/bin/env python3
"""Packs the extension for VS Code into a .vsix, for `code --install-extension`.

    python3 tools/editors/package_vscode.py [-o FILE]

A .vsix is a zip file in the Open Packaging Conventions: the types of its files, a manifest for the
editor's gallery, and the extension's folder as `extension/`. What belongs to the extension is said by
`files` of its package.json. The same files make the same bytes.
"""

import argparse
import json
import re
import sys
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

EXTENSION = Path(__file__).resolve().parent / "vscode"
LICENSE = Path(__file__).resolve().parents[2] / "LICENSE"
# By a file's suffix.
TYPES = {".json": "application/json", ".js": "application/javascript", ".md": "text/markdown",
         ".txt": "text/plain", ".vsixmanifest": "text/xml"}


class Mistake(Exception):
    """What would keep an editor from installing or starting the extension."""


def check_manifest(manifest):
    """The fields that VS Code reads before it installs an extension, as it wants them."""
    for field in ("name", "publisher", "version", "displayName", "description", "license"):
        if not isinstance(manifest.get(field), str) or not manifest[field]:
            raise Mistake(f"package.json has no `{field}`")
    for field in ("name", "publisher"):
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", manifest[field], re.I):
            raise Mistake(f"`{field}` may have letters, digits and -, but is {manifest[field]!r}")
    if not re.fullmatch(r"\d+\.\d+\.\d+", manifest["version"]):
        raise Mistake(f"`version` is to be three numbers, but is {manifest['version']!r}")
    engine = manifest.get("engines", {}).get("vscode", "")
    if not re.fullmatch(r"[\^~>=]*\d+\.\d+\.\d+", engine):
        raise Mistake(f"`engines.vscode` is to be a version such as ^1.75.0, but is {engine!r}")
    if bool(manifest.get("main")) != bool(manifest.get("activationEvents")):
        raise Mistake("`main` and `activationEvents` come together")
    languages = {one.get("id") for one in manifest.get("contributes", {}).get("languages", [])}
    for event in manifest.get("activationEvents", []):
        kind, _, language = event.partition(":")
        if kind == "onLanguage" and language not in languages:
            raise Mistake(f"{event!r} waits for a language that `contributes` does not have")


def named_files(manifest):
    """The files that package.json names elsewhere than in `files`, each with what names it."""
    contributes = manifest.get("contributes", {})
    if "main" in manifest:
        yield "main", manifest["main"]
    for language in contributes.get("languages", []):
        if "configuration" in language:
            yield "a language's configuration", language["configuration"]
    for grammar in contributes.get("grammars", []):
        yield "a grammar", grammar["path"]


def find_files(folder, manifest):
    """Paths in the folder, package.json among them."""
    files = {Path("package.json")}
    for pattern in manifest.get("files", []):
        found = [path.relative_to(folder) for path in folder.glob(pattern) if path.is_file()]
        if not found:
            raise Mistake(f"`files` names {pattern!r}, which is not there")
        files.update(found)
    for what, path in named_files(manifest):
        if Path(path) not in files:
            raise Mistake(f"{what} is {path!r}, which `files` does not name")
    for file in files:
        if file.suffix not in TYPES:
            raise Mistake(f"{str(file)!r} has no type: TYPES knows {', '.join(sorted(TYPES))}")
    return sorted(files)


def content_types():
    types = "".join(f'<Default Extension="{suffix}" ContentType="{kind}"/>'
                    for suffix, kind in sorted(TYPES.items()))
    return ('<?xml version="1.0" encoding="utf-8"?>\n<Types xmlns="http://schemas.openxmlformats.org/'
            f'package/2006/content-types">{types}</Types>\n')


def vsix_manifest(manifest):
    engine = quoteattr(manifest["engines"]["vscode"])
    extensions = [extension[1:] for language in manifest["contributes"]["languages"]
                  for extension in language.get("extensions", [])]
    tags = ",".join([one["id"] for one in manifest["contributes"]["languages"]] +
                    [f"__ext_{extension}" for extension in extensions])
    return f"""<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity Language="en-US" Id={quoteattr(manifest["name"])} Version={quoteattr(manifest["version"])} \
Publisher={quoteattr(manifest["publisher"])}/>
    <DisplayName>{escape(manifest["displayName"])}</DisplayName>
    <Description xml:space="preserve">{escape(manifest["description"])}</Description>
    <Tags>{escape(tags)}</Tags>
    <Categories>{escape(",".join(manifest["categories"]))}</Categories>
    <License>extension/LICENSE.txt</License>
    <Properties>
      <Property Id="Microsoft.VisualStudio.Code.Engine" Value={engine}/>
    </Properties>
  </Metadata>
  <Installation>
    <InstallationTarget Id="Microsoft.VisualStudio.Code"/>
  </Installation>
  <Dependencies/>
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" \
Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/README.md" \
Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.License" Path="extension/LICENSE.txt" \
Addressable="true"/>
  </Assets>
</PackageManifest>
"""


def pack(folder, output):
    """The extension's name; a `Mistake` if an editor would not take it."""
    try:
        manifest = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Mistake(f"package.json cannot be read: {error}") from error
    check_manifest(manifest)
    files = find_files(folder, manifest)
    if Path("README.md") not in files:
        raise Mistake("`files` does not name README.md, which the editor shows")
    contents = {"[Content_Types].xml": content_types().encode(),
                "extension.vsixmanifest": vsix_manifest(manifest).encode(),
                "extension/LICENSE.txt": LICENSE.read_bytes()}
    contents |= {f"extension/{file.as_posix()}": (folder / file).read_bytes() for file in files}
    output = output or Path(f"{manifest['name']}-{manifest['version']}.vsix")
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name)  # of 1980: the time of packing is no part of it
            entry.external_attr = 0o644 << 16
            package.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return output


def main():
    parser = argparse.ArgumentParser(description="Pack the extension for VS Code into a .vsix")
    parser.add_argument("-o", "--output", type=Path, help="default: NAME-VERSION.vsix")
    parser.add_argument("--extension", type=Path, default=EXTENSION, help="its folder")
    options = parser.parse_args()
    try:
        print(pack(options.extension, options.output))
    except (Mistake, OSError) as error:
        sys.exit(f"package_vscode.py: error: {error}")


if __name__ == "__main__":
    main()
