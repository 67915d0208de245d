//! A kernel file as it is carried along: without what only people read.

/// What of `text` is carried: no comment, no blank at either end of a line; lines keep their numbers, for NVRTC's messages. Kernel
/// files have comments of one line alone, and no `//` inside quotes. The first bytes of the array, as many as the second says.
const fn carried<const N: usize>(text: &str) -> ([u8; N], usize) {
    let (from, mut to) = (text.as_bytes(), [0; N]);
    let (mut read, mut written, mut line) = (0, 0, 0);
    while read < from.len() {
        let byte = from[read];
        let comment = byte == b'/' && read + 1 < from.len() && from[read + 1] == b'/';
        if comment {
            while read < from.len() && from[read] != b'\n' {
                read += 1;
            }
            continue;
        }
        if byte == b'\n' {
            while written > line && to[written - 1] == b' ' {
                written -= 1;
            }
            line = written + 1;
        }
        if !(byte == b' ' && written == line) {
            to[written] = byte;
            written += 1;
        }
        read += 1;
    }
    (to, written)
}

/// Bytes that `text`, of `N` bytes, is carried as.
pub(crate) const fn length<const N: usize>(text: &str) -> usize {
    carried::<N>(text).1
}

/// `text`, of `N` bytes, as the `M` bytes that it is carried as.
pub(crate) const fn bytes<const N: usize, const M: usize>(text: &str) -> [u8; M] {
    let (all, _) = carried::<N>(text);
    let (mut some, mut i) = ([0; M], 0);
    while i < M {
        some[i] = all[i];
        i += 1;
    }
    some
}

/// The text of a kernel file, carried along.
macro_rules! text {
    ($file:literal) => {{
        const ALL: &str = include_str!($file);
        const LENGTH: usize = crate::text::length::<{ ALL.len() }>(ALL);
        const BYTES: &[u8] = &crate::text::bytes::<{ ALL.len() }, LENGTH>(ALL);
        match std::str::from_utf8(BYTES) {
            Ok(text) => text,
            Err(_) => panic!("a kernel file is not UTF-8"),
        }
    }};
}
pub(crate) use text;

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let (bytes, length) = carried::<256>(text);
        String::from_utf8(bytes[..length].to_vec()).unwrap_or_default()
    }

    /// What [`carried`] takes for granted.
    #[test]
    fn kernel_files_have_comments_of_one_line_alone() {
        let mut files = 0;
        for file in std::fs::read_dir(env!("CARGO_MANIFEST_DIR")).expect("the crate's folder") {
            let path = file.expect("a file").path();
            if path.extension().is_none_or(|e| e != "cu" && e != "cuh") {
                continue;
            }
            files += 1;
            for line in std::fs::read_to_string(&path).expect("UTF-8").lines() {
                let code = line.split("//").next().unwrap_or("");
                let quotes = code.matches('"').count();
                let odd = line.contains("/*") || line.contains("*/") || line.contains('\t');
                let goes_on = code.len() < line.len() && line.ends_with('\\');
                assert!(
                    !odd && !goes_on && quotes % 2 == 0,
                    "{}: {line}",
                    path.display()
                );
            }
        }
        assert!(files >= crate::ALL.len(), "{files} files");
    }

    #[test]
    fn comments_and_blanks_go_and_lines_stay() {
        assert_eq!(
            shown("  a / b; // c\n\n    // d\n  e  \n//"),
            "a / b;\n\n\ne\n"
        );
        assert_eq!(shown("x / y"), "x / y");
        assert_eq!(shown("µ // ü\n#define A \\\n    1"), "µ\n#define A \\\n1");
        assert_eq!(shown(""), "");
    }
}
