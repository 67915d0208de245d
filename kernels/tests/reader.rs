//! The reader of kernel files: which signatures it takes, which it refuses and where, and the lengths that a launch's
//! arguments are held to.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[allow(dead_code, unreachable_pub)]
#[path = "../build/read.rs"]
mod read;
#[path = "../build/text.rs"]
#[allow(dead_code)] // the build script uses the rest
mod text;

use std::collections::BTreeMap;

use betz_kernels::{ALL, Arguments, In, InOut, Out, TooShort, scan::ScanAdd, sort::SortCount};
use read::{File, Role, Type};
use text::{Mistake, Text};

fn read_file(text: &str) -> Result<File, Mistake> {
    let header = "typedef int Tick;\nstruct Pair {\n    int first;  // index\n};\n";
    let headers = [
        Text::new("pair.cuh", header)?,
        Text::new("kernel.cuh", "__global__")?,
    ];
    File::new(Text::new("file.cu", text)?, &headers)
}

/// A file whose line 4 is the note and whose kernel begins on line 5.
fn kernel(note: &str, parameters: &str) -> String {
    format!(
        "// A file.\n//: variants -DA=1 | -DB\n#include \"pair.cuh\"\n{note}\nextern \"C\" __global__ void __launch_bounds__(32 * (2))\n    work({parameters}) {{\n}}\n"
    )
}

#[test]
fn a_signature_says_types_and_directions() {
    let note = "// Does it.\n//: to: in-out, rows(count, 2 * grid.y, from.len()) + WORDS.max(1)\n//: from: in place";
    let parameters =
        "const Pair* __restrict__ from, const size_t count,\n Tick *to, INPUT *other, double x";
    let file = read_file(&kernel(
        &format!("{note}\n//: other: out or null"),
        parameters,
    ))
    .unwrap();
    assert_eq!(
        (file.module.as_str(), file.comment),
        ("file", vec![" A file.".to_owned()])
    );
    assert_eq!(file.variants, [["-DA=1"], ["-DB"]]);
    let [kernel] = file.kernels.as_slice() else {
        panic!("{:?}", file.kernels);
    };
    assert_eq!(
        (kernel.name.as_str(), kernel.line, kernel.comment.join("|")),
        ("work", 8, "Does it.".to_owned())
    );
    let found: Vec<_> = (kernel.parameters.iter())
        .map(|p| (p.name.as_str(), p.role, p.kind.clone()))
        .collect();
    let expected = [
        ("from", Role::InPlace, Type::Struct("Pair".to_owned())),
        ("count", Role::Value, Type::Number("u64")),
        ("to", Role::InOut, Type::Tick),
        ("other", Role::OutOrNull, Type::Compiled("INPUT".to_owned())),
        ("x", Role::Value, Type::Number("f64")),
    ];
    assert_eq!(found, expected);
    let needs = kernel.parameters[2].needs.as_ref().unwrap();
    assert_eq!(
        needs.rust,
        "rows(n(self.count), 2 * n(grid.1), n(self.from.len())) + n(WORDS).max(1)"
    );
}

#[test]
fn a_bad_signature_is_refused_with_file_and_line() {
    let right = "const u32 *from, int count, float *to";
    assert!(read_file(&kernel("//: to: out, count", right)).is_ok());
    for (note, parameters, line, message) in [
        ("//: to: out", "u32 *from, float *to", 5, "`//: from: out`"),
        ("", right, 5, "`//: to: out`"),
        ("//: to: out", "const word *from, float *to", 5, "\"word\""),
        ("//: to: out", "float *to, int to", 5, "`int to`"),
        ("//: to: out", "float **to", 5, "found"),
        ("//: to: in", right, 4, "since it is not const"),
        ("//: to: out\n//: from: out", right, 5, "since it is const"),
        ("//: to: out\n//: count: out", right, 5, "`value`"),
        (
            "//: too: out",
            right,
            4,
            "a parameter of work, found \"too\"",
        ),
        ("//: to out", right, 4, "`//: NAME: ROLE`"),
        ("//: to: out, 1\n//: to: out, 2", right, 5, "found two"),
        ("//: to: out, cound", right, 4, "\"cound\""),
        ("//: to: out, count - 1", right, 4, "\"- 1\""),
        ("//: to: out, count.pow(2)", right, 4, "found \".pow(2)\""),
        ("//: to: out, grid.w", right, 4, "found"),
        ("/* to */", right, 4, "`/*`"),
        ("\t// a tab", right, 4, "a tab"),
        ("// goes on \\", right, 4, "`\\`"),
        ("const char *c = \"//\";", right, 4, "quotes"),
        ("#include \"other.cuh\"", right, 4, "\"other.cuh\""),
        ("__global__ int work() {", right, 4, "extern"),
    ] {
        let mistake = read_file(&kernel(note, parameters)).unwrap_err();
        assert_eq!(
            (mistake.file.as_str(), mistake.line),
            ("file.cu", line),
            "{note} {parameters}: {mistake}"
        );
        let shown = mistake.to_string();
        assert!(shown.starts_with("kernels/file.cu:"), "{shown}");
        assert!(shown.contains(message), "{message}: {shown}");
    }
    let twice = kernel("//: to: out", right).repeat(2);
    assert_eq!(read_file(&twice).unwrap_err().line, 12);
    let header = read_file("#include \"kernel.cuh\"\n").unwrap_err();
    assert_eq!((header.file.as_str(), header.line), ("kernel.cuh", 1));
}

#[test]
fn a_struct_has_one_field_per_line() {
    let read = |text: &str| Text::new("s.cu", text)?.read_struct("S");
    let right =
        "// A pair.\nstruct S {\n    const float *at;  // address\n    u16 b[4];  // values\n};\n";
    let found = read(right).unwrap().unwrap();
    let fields: Vec<_> = (found.fields.iter())
        .map(|f| (f.name.as_str(), f.pointer, f.array))
        .collect();
    assert_eq!(fields, [("at", true, None), ("b", false, Some(4))]);
    assert_eq!(
        (found.comment.join(""), found.end),
        (" A pair.".to_owned(), 4)
    );
    assert_eq!(read("struct Other {\n};\n"), Ok(None));
    for (text, line) in [
        ("struct S {\n    int a;\n};\n", 2),
        ("struct S {\n    int a, b  // two\n};\n", 2),
        ("struct S {\n    word a;  // a word\n};\n", 2),
        ("\nstruct S {\n    int a[N];  // some\n};\n", 3),
        ("\nstruct S {\n    int a;  // one\n", 2),
    ] {
        assert_eq!(read(text).unwrap_err().line, line, "{text}");
    }
}

#[test]
fn comments_and_blanks_go_and_lines_stay() {
    let code = |text: &str| Text::new("a.cu", text).unwrap().code(&BTreeMap::new());
    assert_eq!(
        code("  a / b; // c\n\n    // d\n  e  \n//"),
        "a / b;\n\n\ne\n\n"
    );
    assert_eq!(code("µ // ü\n#define A \\\n    1"), "µ\n#define A \\\n1\n");
    for source in ALL {
        let texts =
            std::iter::once(&source.text).chain(source.headers.iter().map(|(_, text)| text));
        for text in texts {
            assert!(!text.contains("//"), "{}", source.name);
        }
    }
}

#[test]
#[allow(unsafe_code)]
fn arguments_are_held_to_their_lengths() {
    let check = |keys: usize, counts: usize| {
        // SAFETY: nothing is launched.
        let (keys, counts) = unsafe { (In::new(0, keys), Out::new(0, counts)) };
        let (count, shift, values) = (100, 0, 8);
        let arguments = SortCount {
            keys,
            count,
            shift,
            values,
            counts,
        };
        arguments.check((3, 1, 1))
    };
    let short = |argument, expected, got| {
        Err(TooShort {
            argument,
            expected,
            got,
        })
    };
    assert_eq!(check(100, 24), Ok(()));
    assert_eq!(check(99, 24), short("keys", 100, 99));
    assert_eq!(check(100, 23), short("counts", 24, 23));
    // SAFETY: nothing is launched.
    let (values, offsets) = unsafe { (InOut::new(0, 5), In::new(0, 1)) };
    let arguments = ScanAdd {
        values,
        count: 5,
        offsets,
    };
    let pointers = arguments.pointers();
    assert_eq!(
        pointers[0].cast_const(),
        std::ptr::from_ref(&arguments.values).cast()
    );
    assert!(pointers[..ScanAdd::COUNT].iter().all(|p| !p.is_null()));
    assert!(pointers[ScanAdd::COUNT].is_null());
}
