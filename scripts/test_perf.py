"""Tests of perf.py: `python3 -m unittest discover -s scripts`."""

import unittest
from pathlib import Path

import perf


class Output(unittest.TestCase):
    def test_reads_medians_in_any_unit(self):
        output = "train N=10: first 3.00 ms, median 1.500 ms, least 1.2 ms\nsolve: median 12.5 ns, least 12.0 ns\nother\n"
        self.assertEqual(perf.medians(output), {"train N=10": 1.5e6, "solve": 12.5})


class Interval(unittest.TestCase):
    def test_few_rounds_give_all_their_values(self):
        self.assertEqual(perf.interval([3.0, 1.0, 2.0]), (2.0, 1.0, 3.0))
        self.assertEqual(perf.interval([1.0, 2.0, 3.0, 4.0]), (2.5, 1.0, 4.0))

    def test_many_rounds_leave_the_ends_out(self):
        # Of nine, the second and the eighth hold the median with 1 - 2 (1 + 9) / 512 = 96.1 %.
        self.assertEqual(perf.interval(list(range(9))), (4, 1, 7))
        # Of eight, only the first and the last do so: 1 - 2 (1 + 8) / 256 = 93.0 % is too little.
        self.assertEqual(perf.interval(list(range(8))), (3.5, 0, 7))


class Table(unittest.TestCase):
    def test_ratios_are_of_rounds_and_not_of_medians(self):
        # The machine slows down threefold; head takes half of base's time throughout.
        rounds = [({"a": 2.0 * slow}, {"a": 1.0 * slow}) for slow in (1, 2, 3)]
        self.assertIn("| a | 4 ns | 2 ns | 2.00 faster | 2.00–2.00 |", perf.table(rounds))

    def test_noise_is_not_called_a_change(self):
        rounds = [({"a": 1.0}, {"a": 1.1}), ({"a": 1.1}, {"a": 1.0}), ({"a": 1.0}, {"a": 1.0})]
        row = perf.table(rounds).splitlines()[-1]
        self.assertNotIn("faster", row)
        self.assertNotIn("slower", row)

    def test_an_operation_of_one_side_is_left_out(self):
        self.assertNotIn("| b |", perf.table([({"a": 1.0}, {"a": 1.0, "b": 1.0})]))

    def test_durations_have_units(self):
        self.assertEqual([perf.duration(n) for n in (12.34, 1234.0, 1.5e6)], ["12.3 ns", "1.23 µs", "1.5 ms"])


DUMP = """# callgrind format
desc: Trigger: Client Request: Betz, 8 filters; 0.4; 100
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw
totals: 120000 1 1 90 4000 1000 0 0 0
"""


class Peer(unittest.TestCase):
    def test_counters_are_per_step_but_for_code_which_is_read_once(self):
        self.assertEqual(perf.counted(DUMP), (("Betz, 8 filters", "0.4"), (1200, 50, 90)))

    def test_a_row_has_counts_and_times(self):
        line = "Betz, 8 filters              0.4 spikes per channel and bin: median 0.563, least 0.512 us\n"
        ((name, spikes, *times),) = perf.TIMES.findall(line)
        table = perf.peer_table(dict([perf.counted(DUMP)]), {(name, spikes, "0"): " / ".join(times)})
        self.assertIn("| Betz, 8 filters | 0.4 | 1200 | 50 | 90 | 0.563 / 0.512 | – | – |", table)

    def test_what_is_missing_is_named(self):
        missing = perf.missing_for_peer(Path("/nowhere"), Path("/nowhere"))
        self.assertIn("sources of PhantomCore in /nowhere", missing)


if __name__ == "__main__":
    unittest.main()
