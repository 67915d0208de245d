"""Tests of scripts/prose.py: `python3 -m unittest discover -s scripts`."""

import unittest

import prose


def found(path, text):
    return [(hit.pattern, hit.line) for hit in prose.scan(path, text)]


class Patterns(unittest.TestCase):
    def test_openers_of_comments(self):
        for text in (
            "/// What is sent.",
            "// Whether it ran",
            "let a = 1; // What is left",
            "/// How many steps it took.",
            "/// When.",
        ):
            self.assertEqual(found("crates/base/base/src/a.rs", text), [("opener", 1)], text)
        for text in (
            "/// When the queue is full, the step fails.",
            "/// What do you need?",
            "/// Number of steps.\n/// What is counted stands in the next line of the same sentence.",
            'let a = "What is this";',
        ):
            self.assertEqual(found("crates/base/base/src/a.rs", text), [], text)

    def test_clauses_alone(self):
        for text in (
            "/// Where electrodes are, if that is known.",
            "/// When each window begins.",
            "/// So many units fall silent.",
            "/// Those of the device.",
            "/// As many pointers as the kernel has parameters.",
        ):
            self.assertEqual(found("crates/base/base/src/a.rs", text), [("clause", 1)], text)
        for text in (
            "/// When the queue is full, the step fails.",
            "/// Where to run.",
            "// When each window begins.",
            "/// As [`open`].",
        ):
            self.assertEqual(found("crates/base/base/src/a.rs", text), [], text)

    def test_openers_of_pages(self):
        page = "# What is new\n\nText.\n\n- What is sent\n\n| a | What is b |\n|---|---|\n\n```sh\n# What runs\n```\n"
        self.assertEqual(found("docs/a.md", page), [("opener", 5), ("opener", 7)])

    def test_a_for_per(self):
        for text in ("1,000 steps a second", "8 bytes an event", "one a line", "looks once a step.", "0.5 µs a step", "a thread a device"):
            self.assertEqual(found("docs/a.md", text), [("per", 1)], text)
            self.assertEqual(found("cli/src/a.rs", f'say("{text}")'), [("per", 1)], text)
        for text in ("Two a day", "it takes a step", "after two a second pass", "reads a file", "once a step is done"):
            pattern = [("per", 1)] if text == "Two a day" else []
            self.assertEqual(found("docs/a.md", text), pattern, text)

    def test_the_pattern_spans_lines(self):
        self.assertEqual(found("cli/src/a.rs", "/// The rate in spikes\n/// a second.\n"), [("per", 1)])

    def test_fragments(self):
        self.assertEqual(found("cli/src/a.rs", "/// By whom."), [("fragment", 1)])
        self.assertEqual(found("cli/src/a.rs", "/// Of what."), [("opener", 1), ("fragment", 1)])
        self.assertEqual(found("cli/src/a.rs", "/// By default, the whole recording is read."), [])
        self.assertEqual(found("cli/src/a.rs", "/// As [`open`]."), [])
        self.assertEqual(found("cli/src/a.rs", "// By name."), [])

    def test_long_sentences(self):
        sentence = " ".join(["word"] * 31)
        self.assertEqual(found("docs/a.md", f"{sentence}."), [("long", 1)])
        shorter = "Word" + sentence[10:]
        self.assertEqual(found("docs/a.md", f"{shorter}. {shorter}."), [])
        self.assertEqual(found("cli/src/a.rs", f"/// {sentence}."), [])

    def test_type_names(self):
        for name in ("Found", "Seen", "Exported", "Beside", "Making"):
            self.assertEqual(found("cli/src/a.rs", f"pub(crate) struct {name} {{"), [("participle", 1)], name)
        for name in ("Seed", "Training", "Recording", "FoundEpisode", "Ring"):
            self.assertEqual(found("cli/src/a.rs", f"enum {name} {{"), [], name)


class Baseline(unittest.TestCase):
    def test_growth_is_told_per_area_and_pattern(self):
        now = {"cli": {"per": 3, "opener": 1}, "docs": {"long": 1}}
        self.assertEqual(prose.grown(now, {"cli": {"per": 2, "opener": 1}}), [("cli", "per", 2, 3), ("docs", "long", 0, 1)])
        self.assertEqual(prose.grown(now, now), [])

    def test_an_update_only_lowers(self):
        now = {"cli": {"per": 3, "opener": 1}, "docs": {"long": 1}}
        self.assertEqual(prose.lowered(now, {"cli": {"per": 2, "opener": 4}}), {"cli": {"per": 2, "opener": 1}})

    def test_new_lines_are_told_apart(self):
        old = prose.scan("cli/src/a.rs", "/// What was.\n")
        hits = prose.scan("cli/src/b.rs", "/// What was.\n\n/// What is new.\n")
        self.assertEqual([h.line for h in prose.new_hits(hits, old, "cli", "opener")], [3])


if __name__ == "__main__":
    unittest.main()
