"""Judges `betz.pynn` by PyNN's own system tests.

    git clone --branch 0.12.4 https://github.com/NeuralEnsemble/PyNN
    python scenarios.py PyNN

Runs all tests of test/system/scenarios, also those that PyNN runs with some of its simulators only. Prints a line per test:
passed, failed, not supported (with Betz's reason), or skipped. Exits with 1 if a test failed. Needs PyNN, pytest and scipy.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

import betz.pynn

FIXTURES = '''
import pytest
import betz.pynn


def run_with_simulators(*names):
    return pytest.mark.parametrize("sim", [pytest.param(betz.pynn, id="betz")])
'''


class Outcomes:
    """Collects the outcome of each test."""

    def __init__(self):
        self.lines = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if call.when != "call" and not (report.failed or report.skipped):
            return report
        name = item.nodeid.rpartition("/")[2].replace("[betz]", "").replace(".py::", ": ")
        if report.passed:
            self.lines[name] = "passed", ""
        elif report.skipped:
            self.lines[name] = "skipped", str(report.longrepr[2])
        elif call.excinfo.errisinstance(betz.pynn.NotSupported):
            self.lines[name] = "not supported", str(call.excinfo.value)
        else:
            self.lines[name] = "failed", str(call.excinfo.value).strip().splitlines()[0]
        return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="folder of PyNN's source")
    arguments = parser.parse_args()
    scenarios = arguments.source / "test/system/scenarios"
    if not scenarios.is_dir():
        sys.exit(f"expected PyNN's source with test/system/scenarios, got {arguments.source}")
    outcomes = Outcomes()
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "scenarios"
        shutil.copytree(scenarios, copied)
        (copied / "fixtures.py").write_text(FIXTURES, encoding="utf-8")
        pytest.main([str(copied), "-q", "-p", "no:cacheprovider", "--no-summary", "-W", "ignore"], plugins=[outcomes])
    for kind in ("passed", "failed", "not supported", "skipped"):
        chosen = [(name, reason) for name, (outcome, reason) in outcomes.lines.items() if outcome == kind]
        print(f"\n{kind}: {len(chosen)}")
        for name, reason in chosen:
            print(f"  {name}" + (f" — {reason}" if reason else ""))
    sys.exit(any(outcome == "failed" for outcome, _ in outcomes.lines.values()) or not outcomes.lines)


if __name__ == "__main__":
    main()
