//! The page itself: files that were built before and lie in the source tree.

use std::borrow::Cow;
use std::path::Path;

/// Path, type, text.
type File = (&'static str, &'static str, &'static [u8]);

pub(crate) const FILES: [File; 5] = [
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

/// The file at a path: its type and text. With a folder, read from there (while the page is worked on).
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

/// What a browser compares to see whether it has the file already.
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
            .filter(|s| s.starts_with('/') && s.len() > 1);
        let named: Vec<&str> = named.collect();
        assert!(
            named.contains(&"/app.js") && named.contains(&"/app.css"),
            "{named:?}"
        );
        for path in named {
            assert!(file(path, None).is_some(), "{path} is named and not there");
        }
        let bytes: usize = FILES.iter().map(|f| f.2.len()).sum();
        assert!(bytes <= 285_000, "{bytes} bytes");
        assert!(FILES.iter().all(|f| f.2.len() > 200));
    }

    #[test]
    fn the_page_asks_nobody_else() {
        for (path, _, text) in FILES {
            let text = std::str::from_utf8(text).unwrap();
            for at in text.match_indices("://").map(|m| m.0) {
                let around = &text[text.floor_char_boundary(at.saturating_sub(8))..];
                let end = around.ceil_char_boundary(around.len().min(60));
                let around = &around[..end];
                // The names of SVG's, HTML's and GraphML's vocabularies are asked nowhere.
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
            text.contains("uPlot") && text.contains("Leon Sorokin"),
            "uPlot's notice is missing"
        );
        assert!(
            text.contains("Preact") && text.contains("Jason Miller"),
            "Preact's notice is missing"
        );
    }
}
