//! The page's files, which are built beforehand and stored in the source tree.

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Path, content type and content of a file.
type File = (&'static str, &'static str, &'static [u8]);

pub(crate) const FILES: [File; 6] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_bytes!("../page/dist/index.html"),
    ),
    (
        "/app.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../page/dist/app.js"),
    ),
    (
        "/begin.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../page/dist/begin.js"),
    ),
    (
        "/shared.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../page/dist/shared.js"),
    ),
    (
        "/more.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../page/dist/more.js"),
    ),
    (
        "/app.css",
        "text/css; charset=utf-8",
        include_bytes!("../page/dist/app.css"),
    ),
];

/// Content type and content of the file at a path; read from `folder` if given, for work on the page.
pub(crate) fn file(
    path: &str,
    folder: Option<&Path>,
) -> Option<(&'static str, Cow<'static, [u8]>)> {
    let &(_, kind, text) = FILES.iter().find(|f| f.0 == path)?;
    if let Some(folder) = folder {
        let name = if path == "/" {
            "index.html"
        } else {
            path.trim_start_matches('/')
        };
        if let Ok(bytes) = std::fs::read(folder.join(name)) {
            return Some((kind, bytes.into()));
        }
    }
    Some((kind, text.into()))
}

/// [`FILES`] as gzip, each compressed when it is first asked for: no view waits for the script of another. A file that could not be
/// compressed is empty.
static COMPRESSED: [OnceLock<Vec<u8>>; FILES.len()] = [const { OnceLock::new() }; FILES.len()];

/// The file at a path, compressed with gzip.
pub(crate) fn compressed(path: &str) -> Option<&'static [u8]> {
    let at = FILES.iter().position(|f| f.0 == path)?;
    let bytes = COMPRESSED[at].get_or_init(|| {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        let written = gzip.write_all(FILES[at].2).and_then(|()| gzip.finish());
        written.unwrap_or_default()
    });
    Some(bytes.as_slice()).filter(|bytes| !bytes.is_empty())
}

/// True if a browser that sends this `Accept-Encoding` accepts gzip.
pub(crate) fn takes_gzip(accepted: &str) -> bool {
    let mut codings = accepted.split(',').map(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or("");
        // A quality of 0 refuses an encoding.
        let refused = parts.any(|p| {
            p.strip_prefix("q=")
                .is_some_and(|q| q.parse::<f64>().is_ok_and(|q| q <= 0.0))
        });
        (name, !refused)
    });
    codings.any(|(name, taken)| taken && (name.eq_ignore_ascii_case("gzip") || name == "*"))
}

/// ETag, with which a browser checks whether its copy is current.
pub(crate) fn tag(text: &[u8]) -> String {
    format!(
        "\"{}-{:08x}\"",
        env!("CARGO_PKG_VERSION"),
        crc32fast::hash(text)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_files_that_are_there_and_that_are_not_too_big() {
        let (_, html) = file("/", None).unwrap();
        let html = String::from_utf8(html.into_owned()).unwrap();
        let named = html
            .split('"')
            .filter(|s| s.ends_with(".js") || s.ends_with(".css"));
        let named: Vec<&str> = named.collect();
        assert!(
            named.contains(&"app.js") && named.contains(&"app.css"),
            "{named:?}"
        );
        for path in named {
            // Relative to the page's address, because an embedded page has a longer path.
            let at = format!("/{path}");
            assert!(file(&at, None).is_some(), "{path} is named and not there");
        }
        let bytes: usize = FILES.iter().map(|f| f.2.len()).sum();
        assert!(bytes <= 340_000, "{bytes} bytes");
        assert!(FILES.iter().all(|f| f.2.len() > 200));
    }

    #[test]
    fn compressed_files_are_the_files_and_small() {
        use std::io::Read;
        let mut all = 0;
        for (path, _, text) in FILES {
            let small = compressed(path).unwrap();
            let mut whole = Vec::new();
            flate2::read::GzDecoder::new(small)
                .read_to_end(&mut whole)
                .unwrap();
            assert!(whole == text, "{path}");
            all += if path == "/more.js" { 0 } else { small.len() };
        }
        assert!(all <= 75_000, "the first load takes {all} bytes");
        assert!(compressed("/nothing").is_none());
    }

    #[test]
    fn what_browsers_accept() {
        for (accepted, expected) in [
            ("gzip, deflate, br, zstd", true),
            ("br;q=1.0, gzip;q=0.8, *;q=0.1", true),
            ("*", true),
            ("GZIP", true),
            ("identity", false),
            ("gzip;q=0, identity", false),
            ("xgzip", false),
            ("", false),
        ] {
            assert_eq!(takes_gzip(accepted), expected, "{accepted}");
        }
    }

    #[test]
    fn the_page_asks_nobody_else() {
        for (path, _, text) in FILES {
            let text = std::str::from_utf8(text).unwrap();
            for at in text.match_indices("://").map(|m| m.0) {
                let around = &text[text.floor_char_boundary(at.saturating_sub(8))..];
                let end = around.ceil_char_boundary(around.len().min(60));
                let around = &around[..end];
                // The namespaces of SVG, HTML and GraphML are names, not addresses that a browser loads.
                let known = [
                    "http://www.w3.org/",
                    "http://graphml.graphdrawing.org/xmlns",
                    "}://${location.host}",
                    "https://opensource.org",
                    "https://github.com/",
                ];
                assert!(known.iter().any(|k| around.contains(k)), "{path}: {around}");
            }
        }
    }

    #[test]
    fn libraries_keep_their_notices() {
        let text = std::str::from_utf8(FILES[1].2).unwrap();
        assert!(
            text.contains("Preact") && text.contains("Jason Miller"),
            "Preact's notice is missing"
        );
    }
}
