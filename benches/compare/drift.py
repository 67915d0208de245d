"""Adaptation of a decoder whose channels change: R² before, right after, and within 100 trials.

    python3 benches/compare/drift.py target/release/betz DATA [MODEL or KIND] [CHANGE...] [--seeds 3,4,5]

DATA is the folder of the recordings. KIND is `recurrent` by default; the decoder is trained on trials 0 to 363 of
reach95.npz unless MODEL, a file, is that decoder. From trial 564 on, channels change: `lost`, 24 are silent;
`exchanged`, 28 are heard on another channel; `screaming`, 6 fire at 120 Hz; `weaker`, half of them keep 20 to 70 % of their
spikes. The decoder adapts from trial 514 on. Prints one line of a Markdown table per change and seed: positions /
velocities of the unchanged recording, then of the changed one without adaptation and with it. `%` is the share of the R²
before that is back in trials 50 to 99 after the change. Ends with status 1 if one is below its goal.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

CHANGES = {
    "lost": ["--lose", "24"],
    "exchanged": ["--swap", "28"],
    "screaming": ["--scream", "6"],
    "weaker": ["--gain", "0.2,0.7"],
}
GOALS = {"lost": 95, "exchanged": 95, "screaming": 95, "weaker": 97}
TRAINED, FIRST, CHANGED, WINDOW = 364, 514, 564, 50
CHANGED_SECONDS = "1217.15"


def run(*arguments):
    """The JSON object that a command prints."""
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(done.stdout)


def halves(scores):
    """Mean R² of positions, and of velocities."""
    return [sum(scores[:2]) / 2, sum(scores[2:]) / 2]


def text(scores):
    return " / ".join(f"{score:.4f}" for score in scores)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("betz")
    parser.add_argument("data")
    parser.add_argument("decoder", nargs="?", default="recurrent")
    parser.add_argument("changes", nargs="*", choices=[[], *CHANGES])
    parser.add_argument("--seeds", default="3,4,5")
    wanted = parser.parse_args()
    recording = os.path.join(wanted.data, "reach95.npz")
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        model, drifted = os.path.join(folder, "model.betz"), os.path.join(folder, "drifted.npz")
        if os.path.isfile(wanted.decoder):
            model = wanted.decoder
        else:
            train = ["--segments", f"0..{TRAINED}", "--decoder", wanted.decoder, "--device", "cpu"]
            retain = [] if wanted.decoder == "recurrent" else ["--retain=64MiB"]
            run(wanted.betz, "train", recording, "--out", model, "--json", *train, *retain)
        first, last = CHANGED + WINDOW, CHANGED + 2 * WINDOW
        usual = run(wanted.betz, "evaluate", model, recording, "--json", "--segments", f"{first}..{last}")
        before = halves([output["r2"] for output in usual["outputs"]])
        print("| change | seed | before | frozen, 0 to 49 after | adapted | frozen, 50 to 99 | adapted | % |")
        print("|---|---|---|---|---|---|---|---|")
        for change in wanted.changes or CHANGES:
            for seed in wanted.seeds.split(","):
                drift = ["simulate", "drift", recording, "--out", drifted, "--at", CHANGED_SECONDS, "--force", "--json"]
                run(wanted.betz, *drift, "--seed", seed, *CHANGES[change])
                trials = ["--segments", f"{FIRST}..{last}", "--window", str(WINDOW), "--json"]
                _, soon, late = run(wanted.betz, "adapt", model, drifted, *trials)["windows"]
                cells = [halves(window[which]) for window in (soon, late) for which in ("frozen", "adapted")]
                shares = [100 * after / usual for after, usual in zip(cells[-1], before)]
                share = " / ".join(f"{share:.1f}" for share in shares)
                print("|", " | ".join([change, seed, text(before), *map(text, cells), share]), "|", flush=True)
                if min(shares) < GOALS[change]:
                    missed.append(f"{change}, seed {seed}: {share} %, goal {GOALS[change]} %")
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
