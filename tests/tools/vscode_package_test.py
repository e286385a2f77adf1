#!/usr/bin/env python3
"""The packed extension for VS Code: what an editor reads of it before it installs and starts it.

    RNNC=build/default/tools/rnnc python3 tests/tools/vscode_package_test.py
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACK = ROOT / "tools/editors/package_vscode.py"
EXTENSION = ROOT / "tools/editors/vscode"
TYPES = "{http://schemas.openxmlformats.org/package/2006/content-types}"
MANIFEST = "{http://schemas.microsoft.com/developer/vsx-schema/2011}"


class PackageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def pack(self, *arguments):
        return subprocess.run([sys.executable, PACK, *arguments], cwd=self.folder, text=True,
                              capture_output=True, check=False)

    def packed(self, *arguments):
        result = self.pack(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return self.folder / result.stdout.strip()


class Package(PackageTest):
    def setUp(self):
        super().setUp()
        self.file = self.packed()
        self.package = zipfile.ZipFile(self.file)
        self.addCleanup(self.package.close)
        self.names = self.package.namelist()

    def json(self, name):
        return json.loads(self.package.read(f"extension/{name}"))

    def test_has_the_extension_and_nothing_else(self):
        self.assertEqual(self.file.name, f"rnn-{self.json('package.json')['version']}.vsix")
        self.assertIsNone(self.package.testzip())
        self.assertEqual(sorted(self.names), [
            "[Content_Types].xml", "extension.vsixmanifest", "extension/LICENSE.txt",
            "extension/README.md", "extension/connection.js", "extension/extension.js",
            "extension/language-configuration.json", "extension/package.json",
            "extension/syntaxes/rnn.tmLanguage.json"])

    def test_is_of_this_version(self):
        header = (ROOT / "runtime/capi/rnnc.h").read_text()
        version = [re.search(rf"#define RNNC_VERSION_{part} (\d+)", header)[1]
                   for part in ("MAJOR", "MINOR", "PATCH")]
        self.assertEqual(self.json("package.json")["version"], ".".join(version))

    def test_every_file_has_a_type(self):
        types = xml.fromstring(self.package.read("[Content_Types].xml"))
        self.assertEqual(types.tag, f"{TYPES}Types")
        known = {one.get("Extension") for one in types.findall(f"{TYPES}Default")}
        for name in self.names[1:]:
            self.assertIn(Path(name).suffix, known)

    def test_manifest_is_that_of_package_json(self):
        package = self.json("package.json")
        manifest = xml.fromstring(self.package.read("extension.vsixmanifest"))
        self.assertEqual((manifest.tag, manifest.get("Version")),
                         (f"{MANIFEST}PackageManifest", "2.0.0"))
        metadata = manifest.find(f"{MANIFEST}Metadata")
        identity = metadata.find(f"{MANIFEST}Identity")
        self.assertEqual([identity.get(key) for key in ("Id", "Publisher", "Version")],
                         [package[key] for key in ("name", "publisher", "version")])
        for tag, key in (("DisplayName", "displayName"), ("Description", "description")):
            self.assertEqual(metadata.find(MANIFEST + tag).text, package[key])
        engines = [one.get("Value") for one in metadata.iter(f"{MANIFEST}Property")
                   if one.get("Id") == "Microsoft.VisualStudio.Code.Engine"]
        self.assertEqual(engines, [package["engines"]["vscode"]])
        targets = [one.get("Id") for one in manifest.iter(f"{MANIFEST}InstallationTarget")]
        self.assertEqual(targets, ["Microsoft.VisualStudio.Code"])
        assets = {one.get("Type"): one.get("Path") for one in manifest.iter(f"{MANIFEST}Asset")}
        self.assertEqual(assets["Microsoft.VisualStudio.Code.Manifest"], "extension/package.json")
        self.assertLessEqual(set(assets.values()), set(self.names))
        self.assertIn(metadata.find(f"{MANIFEST}License").text, self.names)

    def test_files_that_package_json_names_are_there(self):
        package = self.json("package.json")
        language, = package["contributes"]["languages"]
        grammar, = package["contributes"]["grammars"]
        for path in (package["main"], language["configuration"], grammar["path"]):
            self.assertTrue(path.startswith("./"))
            self.assertIn(f"extension/{path[2:]}", self.names)
        self.assertEqual(self.json(grammar["path"][2:])["scopeName"], grammar["scopeName"])
        self.assertEqual(package["activationEvents"], [f"onLanguage:{language['id']}"])

    def test_scripts_need_the_editor_and_each_other_alone(self):
        for script in (name for name in self.names if name.endswith(".js")):
            text = self.package.read(script).decode()
            for needed in re.findall(r"require\('([^']+)'\)", text):
                own = f"extension/{needed[2:]}.js" in self.names
                self.assertTrue(own or needed in ("vscode", "child_process"), needed)

    def test_same_files_make_the_same_bytes(self):
        again = self.packed("-o", "again.vsix")
        self.assertEqual(again.read_bytes(), self.file.read_bytes())

    def test_works_as_installed(self):
        rnnc = os.environ.get("RNNC")
        if not (rnnc and shutil.which("node")):
            self.skipTest("there is no node, or RNNC does not say where the program is")
        self.package.extractall(self.folder)
        result = subprocess.run(
            ["node", ROOT / "tests/tools/vscode.js", self.folder / "extension", rnnc],
            capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((result.returncode, result.stdout), (0, "all is well\n"), result.stderr)


class Mistakes(PackageTest):
    """What no editor would install or start is not packed."""

    def expect(self, error, change=lambda manifest: None):
        folder = self.folder / "extension"
        shutil.copytree(EXTENSION, folder, dirs_exist_ok=True)
        manifest = json.loads((EXTENSION / "package.json").read_text())
        change(manifest)
        (folder / "package.json").write_text(json.dumps(manifest))
        result = self.pack("--extension", folder, "-o", "wrong.vsix")
        self.assertEqual((result.returncode, result.stderr),
                         (1, f"package_vscode.py: error: {error}\n"))
        self.assertFalse((self.folder / "wrong.vsix").exists())

    def test_fields(self):
        for field in ("name", "publisher", "version", "displayName", "description", "license"):
            self.expect(f"package.json has no `{field}`", lambda it, key=field: it.pop(key))
        self.expect("`name` may have letters, digits and -, but is 'a b'",
                    lambda it: it.update(name="a b"))
        self.expect("`version` is to be three numbers, but is '1.0'",
                    lambda it: it.update(version="1.0"))
        self.expect("`engines.vscode` is to be a version such as ^1.75.0, but is ''",
                    lambda it: it.update(engines={}))
        self.expect("`main` and `activationEvents` come together",
                    lambda it: it.update(activationEvents=[]))
        self.expect("'onLanguage:rnm' waits for a language that `contributes` does not have",
                    lambda it: it.update(activationEvents=["onLanguage:rnm"]))

    def test_files(self):
        self.expect("`files` names 'icon.png', which is not there",
                    lambda it: it["files"].append("icon.png"))
        self.expect("main is './dist/main.js', which `files` does not name",
                    lambda it: it.update(main="./dist/main.js"))
        self.expect("a grammar is './no.json', which `files` does not name",
                    lambda it: it["contributes"]["grammars"][0].update(path="./no.json"))
        self.expect("a language's configuration is './no.json', which `files` does not name",
                    lambda it: it["contributes"]["languages"][0].update(configuration="./no.json"))
        self.expect("`files` does not name README.md, which the editor shows",
                    lambda it: it["files"].remove("README.md"))
        (self.folder / "extension/icon.png").write_bytes(b"")
        self.expect("'icon.png' has no type: TYPES knows .js, .json, .md, .txt, .vsixmanifest",
                    lambda it: it["files"].append("icon.png"))

    def test_no_package_json(self):
        result = self.pack("--extension", self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"^package_vscode.py: error: package.json cannot be read: ")


if __name__ == "__main__":
    unittest.main()
