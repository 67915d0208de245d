//! `include/betz.h` is what the pinned cbindgen makes of the sources, and the ABI only grows.
//!
//! `BETZ_BLESS=1 cargo test -p betz-ffi --test header` rewrites the header after a change, and adds what
//! is new to `abi/N.txt`, where N is the ABI's number. A change of what is in there needs another number.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

/// In the order in which the header is read.
const SOURCES: [&str; 32] = [
    "version",
    "status",
    "last_error",
    "allocator",
    "log",
    "set_log",
    "model",
    "train_filters",
    "train",
    "train_values",
    "session_config",
    "session",
    "session_open",
    "stats",
    "health",
    "swap",
    "classes",
    "checkpoint",
    "queue",
    "samples",
    "trainer_config",
    "trainer",
    "unlike",
    "miner_config",
    "miner",
    "watch_list",
    "attach",
    "network_config",
    "network",
    "attach_network",
    "sorter",
    "clusterless",
];

/// Macros of the header besides its types.
const MACROS: &str = r#"/** The library whose header this is. The one that runs: betz_version(). */
#define BETZ_VERSION_MAJOR @MAJOR@
#define BETZ_VERSION_MINOR @MINOR@
#define BETZ_VERSION_PATCH @PATCH@
/** One number to compare: 1,000,000 major + 1,000 minor + patch. */
#define BETZ_VERSION_NUMBER                                                                        \
    (BETZ_VERSION_MAJOR * 1000000 + BETZ_VERSION_MINOR * 1000 + BETZ_VERSION_PATCH)

/** A function of the library's. On Windows, define BETZ_STATIC to link statically. */
#ifndef BETZ_API
#if defined(_WIN32) && !defined(BETZ_STATIC)
#define BETZ_API __declspec(dllimport)
#elif defined(__GNUC__)
#define BETZ_API __attribute__((visibility("default")))
#else
#define BETZ_API
#endif
#endif

/** A status that must be looked at: compilers warn of a call that drops it. */
#ifndef BETZ_CHECKED
#if defined(__GNUC__)
#define BETZ_CHECKED __attribute__((warn_unused_result))
#elif defined(_MSC_VER)
#define BETZ_CHECKED _Check_return_
#else
#define BETZ_CHECKED
#endif
#endif

/** A function that is kept for old programs; the text says what to call instead. */
#ifndef BETZ_DEPRECATED
#if defined(__GNUC__)
#define BETZ_DEPRECATED(text) __attribute__((deprecated(text)))
#elif defined(_MSC_VER)
#define BETZ_DEPRECATED(text) __declspec(deprecated(text))
#else
#define BETZ_DEPRECATED(text)
#endif
#endif"#;

/// A header: its name, its part of the ABI's name, and its sources.
struct Part {
    header: &'static str,
    suffix: &'static str,
    sources: &'static [&'static str],
    /// A fresh header. Made once: tests run beside each other, and the expanded sources are in one folder.
    fresh: &'static LazyLock<String>,
}

/// All headers.
static PARTS: [Part; 4] = [
    Part {
        header: "betz",
        suffix: "",
        sources: &SOURCES,
        fresh: &CORE,
    },
    Part {
        header: "betz_live",
        suffix: "-live",
        sources: &[
            "live/session",
            "live/step",
            "live/outputs",
            "live/report",
            "live/recalibrate",
        ],
        fresh: &LIVE,
    },
    Part {
        header: "betz_page",
        suffix: "-page",
        sources: &["page"],
        fresh: &PAGE,
    },
    Part {
        header: "betz_spiking",
        suffix: "-spiking",
        sources: &["spiking"],
        fresh: &SPIKING,
    },
];

static CORE: LazyLock<String> = LazyLock::new(|| generate(&PARTS[0]));
static LIVE: LazyLock<String> = LazyLock::new(|| generate(&PARTS[1]));
static PAGE: LazyLock<String> = LazyLock::new(|| generate(&PARTS[2]));
static SPIKING: LazyLock<String> = LazyLock::new(|| generate(&PARTS[3]));

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn generate(part: &Part) -> String {
    let configuration = match part.suffix.strip_prefix('-') {
        None => "cbindgen.toml".to_owned(),
        Some(name) => format!("cbindgen_{name}.toml"),
    };
    let mut config = cbindgen::Config::from_file(root().join(configuration)).unwrap();
    if part.suffix.is_empty() {
        let macros = MACROS
            .replace("@MAJOR@", env!("CARGO_PKG_VERSION_MAJOR"))
            .replace("@MINOR@", env!("CARGO_PKG_VERSION_MINOR"))
            .replace("@PATCH@", env!("CARGO_PKG_VERSION_PATCH"));
        config.after_includes = Some(macros);
    }
    // cbindgen expands no macro.
    let expanded = Path::new(env!("CARGO_TARGET_TMPDIR")).join(part.header);
    std::fs::create_dir_all(&expanded).unwrap();
    let builder = part.sources.iter().fold(
        cbindgen::Builder::new().with_config(config),
        |builder, name| {
            let file = expanded.join(format!("{}.rs", name.replace('/', "-")));
            let source = std::fs::read_to_string(root().join(format!("src/{name}.rs"))).unwrap();
            std::fs::write(&file, without_macro(&source)).unwrap();
            builder.with_src(file)
        },
    );
    let mut header = Vec::new();
    builder.generate().unwrap().write(&mut header);
    let header = String::from_utf8(header).unwrap();
    for_old_compilers(&header)
}

/// The source with the structs that `grows!` declares outside of it.
fn without_macro(source: &str) -> String {
    let mut inside = false;
    let mut kept = String::new();
    for line in source.lines() {
        if line == "grows! {" {
            inside = true;
        } else if inside && line == "}" {
            inside = false;
        } else {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// Changes that cbindgen has no option for: the compiler must warn about unchecked statuses, C89 knows
/// neither `//` nor a comma after the last enumerator, and `# Safety` is Rust's heading for the caller's
/// duties.
fn for_old_compilers(header: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in header.lines() {
        let line = match line.split_once("//") {
            Some((before, _)) if line.starts_with(['#', '}']) => before.trim_end(),
            _ => line,
        };
        if line.starts_with('}')
            && let Some(last) = lines.last_mut()
            && last.ends_with(',')
        {
            last.pop();
        }
        let line = line
            .replace(" * # Safety", " * The caller's part:")
            .replace(
                "__STDC_VERSION__ >= 202311L",
                "(defined(__STDC_VERSION__) && __STDC_VERSION__ >= 202311L)",
            );
        // A long declaration has its prefix on a line of its own.
        if line.starts_with("betz_status ")
            && let Some(prefix) = lines.last_mut()
            && prefix == "BETZ_API"
        {
            prefix.push_str(" BETZ_CHECKED");
        }
        lines.push(match line.strip_prefix("BETZ_API betz_status ") {
            Some(function) => format!("BETZ_API BETZ_CHECKED betz_status {function}"),
            None => line,
        });
    }
    lines.join("\n") + "\n"
}

#[test]
fn headers_are_current() {
    for part in &PARTS {
        let path = root().join(format!("include/{}.h", part.header));
        expect_current(&path, part.fresh);
    }
}

fn expect_current(path: &Path, fresh: &str) {
    if std::env::var_os("BETZ_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(path, fresh).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let line = (fresh.lines().zip(committed.lines()))
        .position(|(a, b)| a != b)
        .unwrap_or_else(|| fresh.lines().count().min(committed.lines().count()));
    assert!(
        fresh == committed,
        "{} differs from a fresh one at line {}: run BETZ_BLESS=1 cargo test -p betz-ffi --test header",
        path.display(),
        line + 1
    );
}

/// The header's declarations, one per line, without comments, macros and line breaks.
fn declarations(header: &str) -> Vec<String> {
    let mut code = String::new();
    let mut rest = header;
    while let Some((before, comment)) = rest.split_once("/*") {
        code.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    code.push_str(rest);
    let mut text = String::new();
    let mut continued = false;
    for line in code.lines() {
        let line = line.trim();
        let goes_on = std::mem::replace(&mut continued, line.ends_with('\\'));
        if goes_on {
            continue;
        }
        if let Some(constant) = line.strip_prefix("#define BETZ_")
            && ["ABI_V", "STEP_", "TRIAL_", "LIVE_"]
                .iter()
                .any(|prefix| constant.starts_with(prefix))
            && constant != "LIVE_H"
        {
            text.push_str(&format!("#define BETZ_{constant};"));
        }
        // `extern "C" {`, its end, and the type of an enum that only some compilers can be told.
        let aside = line.starts_with('#')
            || line.starts_with("BETZ_ASSERT")
            || line.starts_with("extern")
            || line == ": int32_t"
            || line == ": uint32_t";
        if !aside && !line.ends_with('\\') {
            text.push_str(line);
            text.push(' ');
        }
    }
    let mut found = Vec::new();
    let (mut depth, mut now) = (0, String::new());
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' => continue,
            _ => {}
        }
        if c == ';' && depth == 0 {
            // Attributes of a function are no part of the ABI.
            let words = now.split_whitespace();
            let line = words
                .filter(|word| !matches!(*word, "BETZ_API" | "BETZ_CHECKED"))
                .collect::<Vec<_>>()
                .join(" ");
            if line.contains("betz_") || line.starts_with("#define") {
                found.push(line);
            }
            now.clear();
        } else {
            now.push(c);
        }
    }
    found.retain(|line| !line.contains("BETZ_ASSERT"));
    found
}

/// Name of a declaration, and its parts, which may only grow at the end.
fn parts(line: &str) -> (String, Vec<String>) {
    match line.split_once('{') {
        Some((name, body)) => {
            let body = body.rsplit_once('}').map_or(body, |(body, _)| body);
            let separator = if name.contains("enum") { ',' } else { ';' };
            let parts = body.split(separator).map(|p| p.trim().to_owned());
            (
                name.trim().to_owned(),
                parts.filter(|p| !p.is_empty()).collect(),
            )
        }
        None => (line.to_owned(), Vec::new()),
    }
}

/// Reasons why a program that was compiled against `old` would not work with `new`.
fn breaks(old: &[String], new: &[String]) -> Vec<String> {
    let new: BTreeMap<_, _> = new.iter().map(|line| parts(line)).collect();
    let mut found = Vec::new();
    for line in old {
        let (name, old_parts) = parts(line);
        match new.get(&name) {
            None => found.push(format!("gone or changed: {line}")),
            Some(new_parts) => {
                // Enumerators may come between others: their values are written out.
                let kept = if name.contains("enum") {
                    old_parts.iter().all(|part| new_parts.contains(part))
                } else {
                    new_parts.starts_with(&old_parts)
                };
                if !kept {
                    found.push(format!(
                        "changed otherwise than by growing at its end: {name}"
                    ));
                }
            }
        }
    }
    found
}

#[test]
fn the_abi_only_grows() {
    PARTS.iter().for_each(expect_growth);
}

fn expect_growth(part: &Part) {
    let fresh = declarations(part.fresh);
    let abi = betz_ffi::BETZ_ABI_VERSION;
    let path = root().join(format!("abi/{abi}{}.txt", part.suffix));
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let kept: Vec<String> = kept.lines().map(str::to_owned).collect();
    let broken = breaks(&kept, &fresh);
    assert!(
        broken.is_empty(),
        "programs linked with {} would break; undo it, or give BETZ_ABI_VERSION and the soname another \
         number:\n{}",
        path.display(),
        broken.join("\n")
    );
    if std::env::var_os("BETZ_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(&path, fresh.join("\n") + "\n").unwrap();
    } else {
        assert!(
            kept == fresh,
            "the ABI has grown beyond {}: run BETZ_BLESS=1 cargo test -p betz-ffi --test header",
            path.display()
        );
    }
}

#[test]
fn a_change_of_the_abi_is_seen() {
    let old = declarations(
        "struct betz_a {\n  uint32_t x; /* one; */\n  double y;\n};\nenum betz_e {\n BETZ_P = 0,\n BETZ_Q = 1\n};\n\
         BETZ_API void betz_f(struct betz_a *a,\n    int b);\n",
    );
    assert_eq!(old.len(), 3, "{old:?}");
    assert!(breaks(&old, &old).is_empty());
    let with = |from: &str, to: &str| -> Vec<String> {
        old.iter().map(|line| line.replace(from, to)).collect()
    };
    assert!(breaks(&old, &with("double y;", "double y; double z;")).is_empty());
    assert!(breaks(&old, &with("BETZ_Q = 1", "BETZ_Q = 1, BETZ_R = 2")).is_empty());
    assert_eq!(breaks(&old, &with("double y;", "float y;")).len(), 1);
    assert_eq!(
        breaks(
            &old,
            &with("uint32_t x; double y;", "double y; uint32_t x;")
        )
        .len(),
        1
    );
    assert_eq!(breaks(&old, &with("BETZ_Q = 1", "BETZ_Q = 2")).len(), 1);
    assert_eq!(breaks(&old, &with("int b", "long b")).len(), 1);
    assert_eq!(breaks(&old, &old[..2]).len(), 1);
}

#[test]
fn every_function_says_what_it_may_be_used_for() {
    for (part, least) in PARTS.iter().zip([50, 15, 5, 14]) {
        assert!(documented_functions(part.fresh) >= least, "{}", part.header);
    }
}

/// Every function of C has one of C++ that calls it, and no other is called.
#[test]
fn the_cpp_headers_have_every_function() {
    for part in &PARTS {
        let wrapper = root().join(format!("include/{}.hpp", part.header));
        let wrapper = std::fs::read_to_string(wrapper).unwrap();
        // Comments call nothing.
        let code: Vec<&str> = (wrapper.lines())
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        let called = names_of_functions(&code.join("\n"));
        let declared = names_of_functions(&declarations(part.fresh).join("\n"));
        let missing: Vec<&String> = declared.difference(&called).collect();
        assert!(missing.is_empty(), "{}.hpp lacks {missing:?}", part.header);
        let all: BTreeSet<String> = (PARTS.iter())
            .flat_map(|part| names_of_functions(&declarations(part.fresh).join("\n")))
            .collect();
        // A configuration begins with C's struct of the same name.
        let is_struct =
            |name: &str| (PARTS.iter()).any(|part| part.fresh.contains(&format!("}} {name};")));
        let unknown: Vec<&String> = (called.difference(&all))
            .filter(|name| !is_struct(name))
            .collect();
        assert!(unknown.is_empty(), "{}.hpp calls {unknown:?}", part.header);
    }
}

/// Names that begin with `betz_` and are followed by a parenthesis.
fn names_of_functions(code: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (code.match_indices('('))
        .map(|(at, _)| code[..at].trim_end())
        .filter_map(|before| {
            let start = before.rfind(|c| !is_name(c)).map_or(0, |at| at + 1);
            let name = &before[start..];
            name.starts_with("betz_").then(|| name.to_owned())
        })
        .collect()
}

/// Number of functions of a header, all of which say what they may be used for.
fn documented_functions(header: &str) -> usize {
    let mut comment = String::new();
    let mut functions = 0;
    for line in header.lines() {
        if line.starts_with("/**") || line.starts_with(" *") {
            comment.push_str(line);
            continue;
        }
        if line.starts_with("BETZ_API") {
            functions += 1;
            for promise in ["Thread-safe: ", "Realtime-safe: ", "Allocates: "] {
                assert!(comment.contains(promise), "{line}: no \"{promise}\"");
            }
        }
        comment.clear();
    }
    functions
}
