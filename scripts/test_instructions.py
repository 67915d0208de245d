"""Tests of instructions.py: `python3 -m unittest discover -s scripts`."""

import unittest

import instructions as gate

RECORD = f"""# Instructions
Tools: rustc 1.95.0, valgrind-3.19.0.

{gate.TABLE}| step, 20 spikes | 1,000 |
| solve | 2,000,000 |

## Growth explained
{gate.REASONS}| solve | 1 | 2 | 2026-11-01 | pivots are checked |
"""


class Compare(unittest.TestCase):
    def test_growth_above_two_per_cent_fails(self):
        result = gate.compare({"a": 1000, "b": 1000, "c": 1000}, {"a": 1020, "b": 1021, "c": 979})
        self.assertEqual(result.grown, [("b", 1000, 1021)])
        self.assertEqual(result.shrunk, [("c", 1000, 979)])
        self.assertFalse(result.passes())

    def test_fewer_instructions_pass(self):
        self.assertTrue(gate.compare({"a": 1000}, {"a": 10}).passes())

    def test_cases_and_rows_must_be_the_same(self):
        result = gate.compare({"old": 1}, {"new": 1})
        self.assertEqual((result.unrecorded, result.vanished), (["new"], ["old"]))
        self.assertFalse(result.passes())
        self.assertFalse(gate.compare({"old": 1, "a": 1}, {"a": 1}).passes())


class Record(unittest.TestCase):
    def test_reads_the_counts_and_not_the_reasons(self):
        self.assertEqual(gate.counts_of_record(RECORD), {"step, 20 spikes": 1000, "solve": 2_000_000})
        self.assertEqual(gate.tools_of_record(RECORD), "rustc 1.95.0, valgrind-3.19.0")

    def test_an_update_replaces_counts_and_keeps_reasons(self):
        counted = {"solve": 1_500_000, "step, 20 spikes": 1100}
        grown = gate.compare(gate.counts_of_record(RECORD), counted).grown
        text = gate.with_counts(RECORD, counted, grown, "a step checks its input", "2026-11-25")
        self.assertEqual(gate.counts_of_record(text), counted)
        self.assertIn("| step, 20 spikes | 1,000 | 1,100 | 2026-11-25 | a step checks its input |\n", text)
        self.assertIn("pivots are checked", text)
        self.assertNotIn("| solve | 2,000,000 | 1,500,000 |", text)
        self.assertTrue(gate.compare(gate.counts_of_record(text), counted).passes())

    def test_an_empty_record_takes_its_first_counts(self):
        empty = f"Tools: none.\n\n{gate.TABLE}\n## Growth explained\n{gate.REASONS}"
        text = gate.with_counts(empty, {"a": 5}, [], "", "2026-11-25")
        self.assertEqual(gate.counts_of_record(text), {"a": 5})

    def test_the_repository_s_record_can_be_read(self):
        text = gate.RECORD.read_text()
        self.assertIn(gate.TABLE, text)
        self.assertIn(gate.REASONS, text)


class Dumps(unittest.TestCase):
    def test_a_dump_s_total_is_divided_by_its_operations(self):
        self.assertEqual(gate.total_of_dump("events: Ir\nfn=(1)\n12 5\ntotals: 5000\n"), 5000)
        counts = gate.counts_of_dumps(["step\t50", "solve\t1"], [5000, 7, 0])
        self.assertEqual(counts, {"step": 100, "solve": 7})

    def test_what_is_missing_is_an_error(self):
        with self.assertRaises(ValueError):
            gate.total_of_dump("events: Ir\n")
        with self.assertRaises(ValueError):
            gate.counts_of_dumps(["step\t50", "solve\t1"], [5000])


if __name__ == "__main__":
    unittest.main()
