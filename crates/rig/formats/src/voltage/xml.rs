//! Elements of an XML file: enough for the settings of Open Ephys.

/// An element, with its depth below the root.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) depth: usize,
    /// Attributes in the order of the file.
    attributes: Vec<(String, String)>,
    /// Text before its first child.
    pub(super) text: String,
}

impl Element {
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(of, _)| of == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attributes
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// All elements of `text` in the order in which they begin. Comments and declarations are passed over; a damaged rest is
/// ignored.
pub(super) fn elements(text: &str) -> Vec<Element> {
    let mut found: Vec<Element> = Vec::new();
    let (mut rest, mut depth) = (text, 0_usize);
    while let Some(at) = rest.find('<') {
        if let Some(open) = found.last_mut().filter(|open| open.depth + 1 == depth)
            && open.text.is_empty()
        {
            plain(rest[..at].trim()).clone_into(&mut open.text);
        }
        rest = &rest[at..];
        if rest.starts_with("<!--") {
            let Some(end) = rest.find("-->") else { break };
            rest = &rest[end + 3..];
            continue;
        }
        let Some(end) = tag_end(rest) else { break };
        let tag = &rest[1..end];
        rest = &rest[end + 1..];
        if tag.starts_with(['?', '!']) {
            continue;
        }
        if tag.starts_with('/') {
            depth = depth.saturating_sub(1);
            continue;
        }
        let closed = tag.ends_with('/');
        let tag = tag.trim_end_matches('/').trim();
        let name = tag.split_whitespace().next().unwrap_or("");
        found.push(Element {
            name: name.to_owned(),
            depth,
            attributes: attributes(&tag[name.len()..]),
            text: String::new(),
        });
        depth += usize::from(!closed);
    }
    found
}

/// Position of the `>` that ends the tag at the start of `text`.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, '>') => return Some(at),
            _ => {}
        }
    }
    None
}

fn attributes(mut text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while let Some((name, rest)) = text.split_once('=') {
        let rest = rest.trim_start();
        let Some(quote) = rest.chars().next().filter(|c| ['"', '\''].contains(c)) else {
            break;
        };
        let Some((value, rest)) = rest[1..].split_once(quote) else {
            break;
        };
        found.push((name.trim().to_owned(), plain(value)));
        text = rest;
    }
    found
}

/// Text without XML's escapes.
fn plain(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&")
}

/// The elements inside the one at `at`.
pub(super) fn inside(elements: &[Element], at: usize) -> &[Element] {
    let depth = elements[at].depth;
    let after = &elements[at + 1..];
    let end = after.iter().position(|e| e.depth <= depth);
    &after[..end.unwrap_or(after.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_keep_order_depth_and_attributes() {
        let found = elements(
            "<?xml version=\"1.0\"?><!-- <NO/> --><A b=\"1 > 0\" c='x &amp; y'>\n<B/><C d=\"2\">text<D/></C></A><E",
        );
        let told: Vec<(&str, usize)> = found.iter().map(|e| (e.name.as_str(), e.depth)).collect();
        assert_eq!(told, [("A", 0), ("B", 1), ("C", 1), ("D", 2)]);
        assert_eq!(found[0].attribute("b"), Some("1 > 0"));
        assert_eq!(found[0].attribute("c"), Some("x & y"));
        assert_eq!(found[2].text, "text");
        assert_eq!(inside(&found, 0).len(), 3);
        assert_eq!(inside(&found, 2).len(), 1);
        assert_eq!(inside(&found, 1).len(), 0);
    }
}
