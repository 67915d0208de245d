#!/usr/bin/env python3
"""Counts habits of prose that docs and comments are to lose, per area, and compares the counts with a baseline.

    scripts/prose.py                      fails if a count has grown, and lists the new lines; fails for long subjects of commits
    scripts/prose.py --table              prints every count
    scripts/prose.py --list PATTERN PATH  prints the lines of one pattern (all patterns: `all`) under a path
    scripts/prose.py --update             lowers the baseline to today's counts; `--force` also raises it

Patterns:
  opener      a comment, paragraph or table cell begins with a clause in place of a noun: "What is sent", "Whether it ran"
  per         "a" stands for "per": "spikes a second", "once a step"
  clause      a doc comment's first sentence is a clause alone: "Where electrodes are.", "So many steps.", "Those of the device."
  fragment    a doc comment's first sentence is a preposition or an adverb with little behind it: "Of what.", "By name."
  long        a sentence of a Markdown page has more than 30 words
  participle  a type's name is a participle or a particle: `Found`, `Seen`, `Beside`
"""

import argparse
import collections
import json
import re
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BASELINE = Path("scripts/prose-baseline.json")
PATTERNS = ("opener", "clause", "per", "fragment", "long", "participle")
LONGEST_SENTENCE = 30
# Subjects of commits fit in this many characters from this commit on.
LONGEST_SUBJECT = 72
FIRST_SUBJECTS = "766d07ffa155d68ccc28bb6b3ea8e82e2220bf61"

OPENER = re.compile(
    r"^(?:(?:What|Whatever|Whether|Whom|Of what|Of which|By what|To what|For what|From what|That which|Those which|Who)\b"
    r"|How (?:many|much|long|far|often|late|large|well|it|they|a|the)\b"
    r"|(?:When|How|Where|Why|Which|Whose)[.:;]?$|(?:When|How|Where|Why|Which)[.:;] )"
)
CLAUSE = re.compile(
    # A main clause behind a comma makes a sentence: "When the queue is full, the step fails."
    r"^(?:(?:Where|When|How|Why) (?!to\b)[a-z][^,.;:]*(?:[.;:]|$|, (?:if|when|where|in|as|or|and|which|for|by|of|from)\b)"
    r"|So (?:many|much)\b|As (?:many|much|long|far|often|there|it|they)\b|(?:That|Those) (?:of|which|that)\b)"
)
QUESTION = re.compile(r"^[^.]*\?")

# Plural nouns that are counted; the second list holds those that are verbs, too.
COUNTED = (
    "additions allocations bits bytes candidates cells channels columns commands cores crossings cycles edges electrodes"
    " entries episodes epochs errors events features files flops floats frames instructions iterations kernels launches"
    " lines messages microseconds milliseconds minutes multiplications multiply-adds nanoseconds neurons nodes numbers"
    " operations outputs packets pairs parts pixels points products ranks rounds rows samples seconds spikes steps sums"
    " symbols synapses templates threads ticks trials units users values vectors weights windows words"
)
COUNTED_OR_VERB = "batches calls copies counts draws filters labels links passes reads requests runs states times updates writes"
TIMES = "second millisecond microsecond minute hour day week month year"
UNITS = (
    f"{TIMES} step tick channel line spike bin unit trial core thread byte file row level operation crate block window"
    " edge node neuron sample frame pair event symbol feature output process rank device machine segment"
    " electrode synapse pass column page kernel candidate word bit pixel filter lane entry message packet call"
    " connection dimension layer fold cell batch chunk"
)
NUMBER = (
    r"(?:\d[\d.,]*(?:\s?(?:ns|µs|us|ms|s|kB|MB|GB|KiB|MiB|GiB|B|Hz|kHz))?|one|two|three|four|five|ten|twenty|ns|µs|ms|Hz)"
)


def any_of(names):
    return "(?:" + "|".join(names.split()) + ")"


PER = re.compile(
    rf"(?<![\w-])(?:(?:{NUMBER}|{any_of(COUNTED)}) an? {any_of(UNITS)}|{any_of(COUNTED_OR_VERB)} a {any_of(TIMES)}"
    # "a thread a device", but not "a row a second time".
    rf"|an? {any_of(UNITS)} an? {any_of(UNITS)}"
    rf"|(?:once|twice) an? (?:{any_of(TIMES)}|step|tick|bin|line|frame|window|trial)(?! (?:is|has|was|of)\b))\b"
    # "a second pass": an ordinal, not a time.
    r"(?! (?:pass|one|time|run|file|call|trial|line|look|thread|device|process|step|set|copy|level|session)\b)",
    re.IGNORECASE,
)

FRAGMENT = re.compile(
    r"^(?:As(?! \[)|(?:Of|By|To|From|For|With|Without|At|On|So|And|Or|But|Than|Then|Here|There|Thus|Beside|Behind|Between|Among|Likewise|Anew|Again|Not)\b)"
)
FRAGMENT_WORDS = 4

PARTICIPLES = set(
    "Ran Made Told Held Drawn Given Known Chosen Written Built Said Lost Sent Grown Laid Begun Done Gone Thrown Heard"
    " Learnt Sought Spent Felt Fed Stood Understood Found Seen Shown Taken Kept Driven Broken Spoken Hidden Bought Caught"
    " Brought Thought Meant Dealt Sold Left Met Of By To From Beside Between Behind Among Anew Again Away Along Meanwhile"
    " With Within Before After Like Whence Thereof Neither Both Much Many".split()
)
# Nouns of the field or of computing that end as participles do.
NOUNS = set(
    "Bed Bearing Binding Bounding Bring Building Casting Clustering Coding Colouring Computing Counting Decoding Drawing Edging Embed Embedding"
    " Encoding Feed Filtering Finding Framing Heading Hed King Learning Listing Mapping Matching Meaning Mining Monitoring Naming Need"
    " Numbering Ordering Pairing Painting Planning Pooling Processing Ranking Rating Reading Recording Rendering Ring Rounding Sampling"
    " Scheduling Scaling Seed Setting Shed Sibling Smoothing Sorting Spacing Speed Spelling Spring String Thing Tiling Timing Tracking Training"
    " Typing Warning Weighting Whitening Wing Wiring Writing".split()
)
TYPE = re.compile(r"^\s*(?:pub(?:\([a-z: ]+\))? )?(?:unsafe )?(?:struct|enum|union|trait|type) ([A-Z][A-Za-z0-9]*)")

SKIPPED = ("target/", "target-", "monitor/page/dist/", "examples/iceoryx2/target/", "examples/bare/target/", "node_modules/")


class Hit(NamedTuple):
    area: str
    pattern: str
    path: str
    line: int
    text: str


class Block(NamedTuple):
    """A paragraph: its text in one line, the number of its first line, and whether it is a doc comment."""

    line: int
    text: str
    doc: bool


def area_of(path):
    parts = path.split("/")
    if path.endswith(".md"):
        return "record" if path.startswith("benches/record/") else "docs"
    if parts[0] == "crates" and len(parts) > 3:
        return "/".join(parts[:3])
    return parts[0] if len(parts) > 1 else "root"


def paragraphs(lines, doc):
    """Paragraphs of consecutive lines `(number, text)`; fenced code, tables' rules and headings are left out."""
    out, current, fenced = [], [], False

    def close():
        if current:
            out.append(Block(current[0][0], " ".join(text for _, text in current), doc))
            current.clear()

    for number, text in lines:
        text = text.strip()
        if text.startswith(("```", "~~~")):
            fenced = not fenced
            close()
        elif fenced:
            continue
        elif not text or text.startswith("#") or set(text) <= set("─-=_*| :"):
            close()
        elif text.startswith("|"):
            close()
            for cell in re.split(r"(?<!\\)\|", text.strip("|")):
                if cell.strip():
                    out.append(Block(number, cell.strip(), doc))
        else:
            item = re.match(r"(?:[-*+]|\d+\.) +", text)
            if item:
                close()
                text = text[item.end() :]
            current.append((number, text))
    close()
    return out


def markdown_blocks(text):
    return paragraphs(enumerate(text.splitlines(), 1), False)


def comment_blocks(text, marks):
    """Comments of a language with line comments; `marks` are its marks, the longest first."""
    out, run, kind = [], [], None

    def close():
        nonlocal run
        if run:
            out.extend(paragraphs(run, kind in ("///", "//!", "/**")))
            run = []

    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        mark = next((m for m in marks if stripped.startswith(m)), None)
        if mark is None:
            close()
            kind = None
            before, found, after = line.partition(f" {marks[-1]} ")
            if found and before.count('"') % 2 == 0:
                out.extend(paragraphs([(number, after)], False))
            continue
        if mark != kind:
            close()
            kind = mark
        run.append((number, stripped[len(mark) :]))
    close()
    return out


def block_comments(text):
    """`/* … */` of C, of which `/** … */` is documentation."""
    out = []
    for found in re.finditer(r"/\*(\*?)(.*?)\*/", text, re.DOTALL):
        first = text.count("\n", 0, found.start()) + 1
        lines = [
            (first + i, line.strip().removeprefix("*"))
            for i, line in enumerate(found.group(2).split("\n"))
        ]
        out.extend(paragraphs(lines, bool(found.group(1))))
    return out


def docstrings(text):
    out = []
    for found in re.finditer(r'^[ ]*[rR]?"""(.*?)"""', text, re.DOTALL | re.MULTILINE):
        first = text.count("\n", 0, found.start()) + 1
        out.extend(paragraphs(list(enumerate(found.group(1).split("\n"), first)), True))
    return out


def blocks_of(path, text):
    suffix = path.rsplit(".", 1)[-1]
    if suffix == "md":
        return markdown_blocks(text)
    if suffix in ("rs", "cu", "cuh", "ts"):
        blocks = comment_blocks(text, ("///", "//!", "//"))
        return blocks + block_comments(text) if suffix != "rs" else blocks
    if suffix in ("h", "hpp", "c", "cpp"):
        return comment_blocks(text, ("///", "//")) + block_comments(text)
    if suffix in ("py", "pyi"):
        return comment_blocks(text, ("#",)) + docstrings(text)
    if suffix in ("sh", "toml"):
        return comment_blocks(text, ("#",))
    return []


def sentences(text):
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "Code", text)
    text = re.sub(r"\b(et al|e\.g|i\.e|cf|vs|ch|pp?|Fig|Eq|No|approx)\. ", r"\1 ", text)
    return re.split(r"(?<=[.!?])[\"')*]* +(?=[A-Z(*\"0-9])", text)


def words(sentence):
    return len(re.findall(r"[A-Za-z][\w’'-]*|\d[\d.,]*", sentence))


def is_participle(name):
    if name in PARTICIPLES:
        return True
    one_word = re.fullmatch(r"[A-Z][a-z]+", name)
    return bool(one_word and re.search(r"(?:ed|ing)$", name) and name not in NOUNS)


def scan(path, text):
    """Every hit of one file."""
    area, hits = area_of(path), []

    def hit(pattern, line, found):
        hits.append(Hit(area, pattern, path, line, " ".join(found.split())[:160]))

    in_comments = set()
    for block in blocks_of(path, text):
        begin = block.text.lstrip("*_ ")
        if OPENER.match(begin) and not QUESTION.match(begin):
            hit("opener", block.line, block.text)
        elif block.doc and CLAUSE.match(begin) and not QUESTION.match(begin):
            hit("clause", block.line, block.text)
        parts = sentences(block.text)
        if block.doc and FRAGMENT.match(begin) and words(parts[0]) <= FRAGMENT_WORDS:
            hit("fragment", block.line, block.text)
        for found in PER.finditer(block.text):
            in_comments.add(found.group(0).lower())
            begin_of = max(0, found.start() - 40)
            hit("per", block.line, block.text[begin_of : found.end() + 20])
        if path.endswith(".md"):
            for sentence in parts:
                if words(sentence) > LONGEST_SENTENCE:
                    hit("long", block.line, f"{words(sentence)} words: {sentence}")
    if path.endswith((".rs", ".py", ".ts")):
        for number, line in enumerate(text.splitlines(), 1):
            if '"' in line and not line.lstrip().startswith(("//", "#")):
                for literal in re.findall(r'"(?:[^"\\]|\\.)*"', line):
                    for found in PER.finditer(literal):
                        hit("per", number, literal)
            name = TYPE.match(line)
            if name and path.endswith(".rs") and is_participle(name.group(1)):
                hit("participle", number, line)
    return hits


def is_read(path):
    # The script and its tests hold examples of every pattern.
    return not path.startswith(SKIPPED) and not re.match(r"scripts/(test_)?prose", path)


def scan_tree(root, paths):
    hits = []
    for path in filter(is_read, paths):
        try:
            text = (root / path).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        hits.extend(scan(path, text))
    return hits


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout


def tracked():
    try:
        listed = git("ls-files", "--cached", "--others", "--exclude-standard").decode()
    except (OSError, subprocess.CalledProcessError):
        return sorted(str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file())
    return sorted(set(listed.splitlines()))


def counts(hits):
    table = collections.defaultdict(collections.Counter)
    for hit in hits:
        table[hit.area][hit.pattern] += 1
    return {
        area: {p: found[p] for p in PATTERNS if found[p]} for area, found in sorted(table.items())
    }


def grown(now, baseline):
    """Areas and patterns whose count is above the baseline's, with both counts."""
    return [
        (area, pattern, baseline.get(area, {}).get(pattern, 0), count)
        for area, found in now.items()
        for pattern, count in found.items()
        if count > baseline.get(area, {}).get(pattern, 0)
    ]


def lowered(now, baseline):
    """The baseline with every count that has fallen replaced by today's."""
    out = {}
    for area, found in now.items():
        kept = {p: min(n, baseline.get(area, {}).get(p, 0)) for p, n in found.items()}
        out[area] = {p: n for p, n in kept.items() if n}
    return {area: found for area, found in out.items() if found}


def hits_at_baseline():
    """Hits in the commit that last changed the baseline; none where Git or its history is not there."""
    try:
        commit = git("log", "-1", "--format=%H", "--", str(BASELINE)).decode().strip()
        if not commit:
            return []
        archive = git("archive", commit)
    except (OSError, subprocess.CalledProcessError):
        return []
    hits = []
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        for member in tar:
            if member.isfile() and is_read(member.name):
                try:
                    hits.extend(scan(member.name, tar.extractfile(member).read().decode()))
                except UnicodeDecodeError:
                    continue
    return hits


def new_hits(hits, old, area, pattern):
    """Hits of one area and pattern that `old` does not have; all of them if none can be told apart."""
    left = collections.Counter(h.text for h in old if (h.area, h.pattern) == (area, pattern))
    new = []
    for hit in hits:
        if (hit.area, hit.pattern) != (area, pattern):
            continue
        if left[hit.text]:
            left[hit.text] -= 1
        else:
            new.append(hit)
    return new or [h for h in hits if (h.area, h.pattern) == (area, pattern)]


def print_table(now, baseline):
    areas = sorted(set(now) | set(baseline))
    print(f"{'area':<18}" + "".join(f"{p:>12}" for p in PATTERNS))
    for area in [*areas, "all"]:
        row = []
        for pattern in PATTERNS:
            chosen = areas if area == "all" else [area]
            row.append(sum(now.get(a, {}).get(pattern, 0) for a in chosen))
        print(f"{area:<18}" + "".join(f"{n:>12}" for n in row))


def long_subjects():
    """Commits since `FIRST_SUBJECTS` with a long subject; none where git does not know that commit."""
    log = subprocess.run(
        ["git", "log", "--no-merges", "--format=%h %s", f"{FIRST_SUBJECTS}..HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return [line for line in log.stdout.splitlines() if len(line.partition(" ")[2]) > LONGEST_SUBJECT]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", action="store_true", help="print every count")
    parser.add_argument("--list", nargs="+", metavar=("PATTERN", "PATH"), help="print lines")
    parser.add_argument("--update", action="store_true", help="lower the baseline")
    parser.add_argument("--force", action="store_true", help="let --update raise counts, too")
    arguments = parser.parse_args()

    hits = scan_tree(ROOT, tracked())
    now = counts(hits)
    file = ROOT / BASELINE
    baseline = json.loads(file.read_text()) if file.exists() else {}

    if arguments.list:
        wanted, *under = arguments.list
        if wanted not in (*PATTERNS, "all"):
            parser.error(f"expected one of {', '.join(PATTERNS)}, all; found {wanted}")
        for hit in hits:
            if wanted in (hit.pattern, "all") and hit.path.startswith(tuple(under) or ""):
                print(f"{hit.path}:{hit.line}: {hit.pattern}: {hit.text}")
        return 0
    if arguments.table:
        print_table(now, baseline)
        return 0
    if arguments.update:
        new = now if arguments.force else lowered(now, baseline)
        file.write_text(json.dumps(new, indent=1, sort_keys=True) + "\n")

    subjects = long_subjects()
    for line in subjects:
        print(f"commit {line}: expected a subject of at most {LONGEST_SUBJECT} characters")
    worse = grown(now, json.loads(file.read_text()) if file.exists() else {})
    if not worse and subjects:
        return 1
    if not worse:
        print(f"prose: {len(hits)} lines to mend, no count above the baseline")
        return 0
    old = hits_at_baseline()
    for area, pattern, before, count in worse:
        print(f"{area}: {pattern}: {count}, the baseline has {before}:")
        for hit in new_hits(hits, old, area, pattern):
            print(f"  {hit.path}:{hit.line}: {hit.text}")
    print("Rewrite these lines (CONTRIBUTING.md, English), or lower other counts of the same area and pattern.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
