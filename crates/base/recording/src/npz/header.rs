//! The header of a `.npy` array: NumPy's type string, order and shape.
//!
//! A header cannot be trusted: products of sizes are checked for overflow.

use std::io::{Read, Write};

use betz_base::error::{Error, Result};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longest header text accepted; NumPy writes under 200 bytes for a plain array.
const MAX_HEADER: usize = 1 << 16;
/// Contents of a `.npy` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// NumPy's type string, such as `<f4`.
    pub(super) descr: String,
    /// True if the first axis varies fastest.
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<u64>,
}

impl Header {
    /// Product of the shape, if it fits in memory.
    pub(super) fn elements(&self) -> Result<usize> {
        self.shape
            .iter()
            .try_fold(1_usize, |n, &d| n.checked_mul(usize::try_from(d).ok()?))
            .ok_or_else(|| {
                Error::recording(format!(
                    "expected a shape that memory can hold, got {}",
                    self.shape_text()
                ))
            })
    }

    /// The shape as NumPy prints it.
    pub(super) fn shape_text(&self) -> String {
        let inner: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        if inner.len() == 1 {
            format!("({},)", inner[0])
        } else {
            format!("({})", inner.join(", "))
        }
    }

    /// Reads magic, version and header text; `reader` is then at the first element.
    pub(super) fn read(reader: &mut dyn Read) -> Result<Self> {
        let mut start = [0_u8; 8];
        fill(reader, &mut start, "the .npy header")?;
        if &start[..6] != MAGIC {
            return Err(Error::recording(
                "no .npy array (its magic bytes are not there)",
            ));
        }
        let length = match start[6] {
            1 => {
                let mut b = [0_u8; 2];
                fill(reader, &mut b, "the .npy header")?;
                usize::from(u16::from_le_bytes(b))
            }
            2 | 3 => {
                let mut b = [0_u8; 4];
                fill(reader, &mut b, "the .npy header")?;
                u32::from_le_bytes(b) as usize
            }
            v => {
                return Err(Error::recording(format!(
                    "expected .npy format version 1 to 3, got {v}"
                )));
            }
        };
        if length > MAX_HEADER {
            return Err(Error::recording(format!(
                "expected a .npy header of at most {MAX_HEADER} bytes, got {length}"
            )));
        }
        let mut text = vec![0_u8; length];
        fill(reader, &mut text, "the .npy header")?;
        let text = std::str::from_utf8(&text).map_err(|_| {
            Error::recording("expected text in the .npy header, got bytes that are not UTF-8")
        })?;
        Parser::new(text).header()
    }

    /// Writes magic, version 1.0 and header text, padded to a multiple of 64 bytes as NumPy does.
    pub(super) fn write(&self, writer: &mut dyn Write) -> std::io::Result<()> {
        let order = if self.fortran_order { "True" } else { "False" };
        let mut text = format!(
            "{{'descr': '{}', 'fortran_order': {order}, 'shape': {}, }}",
            self.descr,
            self.shape_text()
        );
        let unpadded = MAGIC.len() + 4 + text.len() + 1;
        text.extend(std::iter::repeat_n(
            ' ',
            unpadded.next_multiple_of(64) - unpadded,
        ));
        text.push('\n');
        let length = u16::try_from(text.len()).map_err(std::io::Error::other)?;
        writer.write_all(MAGIC)?;
        writer.write_all(&[1, 0])?;
        writer.write_all(&length.to_le_bytes())?;
        writer.write_all(text.as_bytes())
    }
}

/// Fills `out`, or reports how much of `what` was missing.
pub(super) fn fill(reader: &mut dyn Read, out: &mut [u8], what: &str) -> Result<()> {
    let mut have = 0;
    while have < out.len() {
        match reader.read(&mut out[have..]) {
            Ok(0) => {
                return Err(Error::recording(format!(
                    "{what} is truncated: expected {} more bytes, got {have}",
                    out.len()
                )));
            }
            Ok(n) => have += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => {
                return Err(Error::recording(format!(
                    "damaged or truncated: expected {what} that can be read, got: {e}"
                )));
            }
        }
    }
    Ok(())
}

/// Parser for the Python dictionary in a `.npy` header. It does not recurse, because a plain array's header has no
/// nested values.
struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    fn wrong(&self, expected: &str) -> Error {
        let shown: String = self.rest.chars().take(24).collect();
        Error::recording(format!(
            "malformed .npy header: expected {expected} at `{}`",
            shown.trim_end()
        ))
    }

    fn eat(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(self.wrong(&format!("`{token}`")))
        }
    }

    fn string(&mut self) -> Result<&'a str> {
        for quote in ["'", "\""] {
            if self.eat(quote)
                && let Some((inside, rest)) = self.rest.split_once(quote)
            {
                self.rest = rest;
                return Ok(inside);
            }
        }
        Err(self.wrong("a string (structured types are not read)"))
    }

    fn shape(&mut self) -> Result<Vec<u64>> {
        self.expect("(")?;
        let mut shape = Vec::new();
        while !self.eat(")") {
            self.rest = self.rest.trim_start();
            let digits = self
                .rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(self.rest.len());
            let (number, rest) = self.rest.split_at(digits);
            shape.push(number.parse().map_err(|_| self.wrong("a length"))?);
            self.rest = rest;
            if !self.eat(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(shape)
    }

    fn header(mut self) -> Result<Header> {
        let (mut descr, mut order, mut shape) = (None, None, None);
        self.expect("{")?;
        while !self.eat("}") {
            let key = self.string()?;
            self.expect(":")?;
            match key {
                "descr" => descr = Some(self.string()?.to_owned()),
                "fortran_order" => {
                    order = Some(self.eat("True"));
                    if order == Some(false) {
                        self.expect("False")?;
                    }
                }
                "shape" => shape = Some(self.shape()?),
                _ => return Err(self.wrong("one of descr, fortran_order, shape")),
            }
            if !self.eat(",") {
                self.expect("}")?;
                break;
            }
        }
        match (descr, order, shape) {
            (Some(descr), Some(fortran_order), Some(shape)) => Ok(Header {
                descr,
                fortran_order,
                shape,
            }),
            _ => Err(Error::recording(
                "malformed .npy header: expected descr, fortran_order and shape",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Header> {
        Parser::new(text).header()
    }

    #[test]
    fn reads_what_numpy_writes() {
        let h = parse("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }   \n").unwrap();
        assert_eq!(h.descr, "<f4");
        assert!(!h.fortran_order);
        assert_eq!(h.shape, [3, 2]);
        assert_eq!(
            parse("{'descr': '<U5', 'fortran_order': True, 'shape': ()}")
                .unwrap()
                .shape,
            [0_u64; 0]
        );
        assert_eq!(
            parse("{\"shape\":(7,),'descr':'<i8','fortran_order':False}")
                .unwrap()
                .shape,
            [7]
        );
    }

    #[test]
    fn refuses_what_numpy_does_not_write() {
        for text in [
            "",
            "{",
            "{}",
            "{'descr': '<f4', 'fortran_order': False}",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
            "{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn header_is_padded_and_read_back() {
        for shape in [vec![], vec![5], vec![5, 0], vec![123_456_789, 95]] {
            let h = Header {
                descr: "<u2".into(),
                fortran_order: false,
                shape,
            };
            let mut bytes = Vec::new();
            h.write(&mut bytes).unwrap();
            assert_eq!(bytes.len() % 64, 0);
            assert_eq!(Header::read(&mut &bytes[..]).unwrap(), h);
        }
    }
}
