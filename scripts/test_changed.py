"""Tests of .ci/changed: which packages a change concerns."""

import importlib.machinery
import importlib.util
import pathlib
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
loader = importlib.machinery.SourceFileLoader("changed", str(ROOT / ".ci" / "changed"))
changed = importlib.util.module_from_spec(importlib.util.spec_from_loader("changed", loader))
loader.exec_module(changed)


def package(name, folder, *uses):
    return {
        "name": name,
        "manifest_path": str(ROOT / folder / "Cargo.toml"),
        "dependencies": [{"name": use} for use in uses],
    }


PACKAGES = [
    package("betz", ".", "betz-train"),
    package("betz-base", "crates/base/base"),
    package("betz-train", "crates/decode/train", "betz-base"),
    package("betz-cli", "cli", "betz"),
    package("betz-decode", "cli/decode", "betz-cli"),
]


class ChangedPackages(unittest.TestCase):
    def test_users_of_a_changed_package_are_tested_too(self):
        found = changed.changed_packages(["crates/decode/train/src/lib.rs"], PACKAGES)
        self.assertEqual(found, {"betz-train", "betz", "betz-cli", "betz-decode"})

    def test_the_innermost_package_holds_a_file(self):
        self.assertEqual(changed.changed_packages(["cli/decode/src/main.rs"], PACKAGES), {"betz-decode"})

    def test_the_root_package_holds_src(self):
        found = changed.changed_packages(["src/lib.rs"], PACKAGES)
        self.assertEqual(found, {"betz", "betz-cli", "betz-decode"})

    def test_documents_concern_no_package(self):
        self.assertEqual(changed.changed_packages(["README.md", "docs/guide.md"], PACKAGES), set())

    def test_the_workspace_concerns_all(self):
        self.assertIsNone(changed.changed_packages(["Cargo.lock"], PACKAGES))


if __name__ == "__main__":
    unittest.main()
