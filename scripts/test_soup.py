"""Tests of scripts/soup.py and scripts/sbom.py: `python3 -m unittest discover -s scripts`."""

import copy
import unittest

import sbom
import soup

TESTS = {"a.rs": "#[test]\nfn one() {}\n#[test]\n#[ignore]\nfn two() {}\n", "b.c": "int main(void) {\n    RUN(three);\n}"}


def requirement(identifier, *tests):
    return {"id": identifier, "kind": "functional", "text": "It does.", "tests": list(tests)}


class Requirements(unittest.TestCase):
    def expect(self, found, *parts):
        self.assertEqual(len(found), len(parts), found)
        for text, part in zip(found, parts):
            self.assertIn(part, text)

    def test_whole(self):
        for tests in (("a.rs", "b.c"), ("a.rs: one", "a.rs: two", "b.c: three"), ("a.rs: one", "a.rs", "b.c")):
            self.expect(soup.faults([requirement("BETZ-001", *tests)], TESTS))

    def test_a_requirement_without_a_test(self):
        found = soup.faults([requirement("BETZ-001", "a.rs", "b.c"), requirement("BETZ-002")], TESTS)
        self.expect(found, "BETZ-002: expected a test that shows it")

    def test_a_test_without_a_requirement(self):
        self.expect(soup.faults([requirement("BETZ-001", "a.rs")], TESTS), "b.c: expected a requirement")
        found = soup.faults([requirement("BETZ-001", "a.rs: one", "b.c")], TESTS)
        self.expect(found, "a.rs: expected a requirement that names its test two")

    def test_a_test_that_is_not_there(self):
        found = soup.faults([requirement("BETZ-001", "a.rs", "b.c", "c.c", "a.rs: four")], TESTS)
        self.expect(found, "c.c", "four")

    def test_identifiers(self):
        twice = [requirement("BETZ-001", "a.rs"), requirement("BETZ-001", "b.c")]
        self.expect(soup.faults(twice, TESTS), "several", "several")
        self.expect(soup.faults([requirement("R1", "a.rs", "b.c")], TESTS), "R1: expected an identifier")
        odd = {**requirement("BETZ-001", "a.rs", "b.c"), "kind": "odd"}
        self.expect(soup.faults([odd], TESTS), "expected kind")

    def test_a_section_ends_with_the_next(self):
        self.assertEqual(soup.section("# T\n## A\none\n\n## B\ntwo\n", "A"), "one")
        self.assertEqual(soup.section("# T\n## A\none\n\n## B\ntwo\n", "B"), "two")


TREE = "0betz-library v1.0.0 (/here)\n1a v0.1.0\n2b v0.2.0\n1b v0.2.0 (*)\n"
LOCK = '[[package]]\nname = "a"\nversion = "0.1.0"\nchecksum = "12"\n[[package]]\nname = "b"\nversion = "0.2.0"\n'


def package(name, version):
    return {
        "name": name,
        "version": version,
        "source": None,
        "authors": ["Ann <ann@example.org>"],
        "license": "MIT/Apache-2.0",
        "repository": None,
    }


METADATA = {"packages": [package("betz-library", "1.0.0"), package("a", "0.1.0"), package("b", "0.2.0")]}


class Bom(unittest.TestCase):
    def setUp(self):
        self.bom = sbom.document("", TREE, LOCK, METADATA, "rustc 1.95.0 (x)\nhost: here\n")

    def test_graph(self):
        needs = {d["ref"]: d.get("dependsOn") for d in self.bom["dependencies"]}
        self.assertEqual(needs["pkg:cargo/a@0.1.0"], ["pkg:cargo/b@0.2.0", "pkg:generic/rust-std@1.95.0"])
        self.assertIn("pkg:cargo/b@0.2.0", needs["pkg:cargo/betz-library@1.0.0"])
        self.assertEqual(sbom.faults(self.bom), [])

    def test_components(self):
        a = self.bom["components"][0]
        self.assertEqual(a["supplier"], {"name": "Ann"})
        self.assertEqual(a["licenses"], [{"expression": "MIT OR Apache-2.0"}])
        self.assertEqual(a["hashes"], [{"alg": "SHA-256", "content": "12"}])
        again = sbom.document("", TREE, LOCK, METADATA, "rustc 1.95.0 (x)\nhost: here\n")
        self.assertEqual(again, self.bom)

    def test_faults(self):
        for change, part in (
            (lambda b: b["components"][0].pop("supplier"), "expected a field supplier"),
            (lambda b: b["components"].append(b["components"][0]), "found several"),
            (lambda b: b["components"].pop(1), "found a dependency alone"),
            (lambda b: b["dependencies"].clear(), "expected a path"),
        ):
            wrong = copy.deepcopy(self.bom)
            change(wrong)
            self.assertTrue(any(part in fault for fault in sbom.faults(wrong)), part)


if __name__ == "__main__":
    unittest.main()
