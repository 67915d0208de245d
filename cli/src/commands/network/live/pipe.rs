//! Frames of a pipe: PGM and PPM images one behind the other, YUV4MPEG2, or raw bytes.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use betz::{Error, ErrorKind, Result, memory};
use betz_rigs::rig::Fifo;

use super::super::frames::{Frame, Stack, View};
use super::args::LiveInput;
use super::feed::{Answer, Feed, Piece};
use super::folder::push_frames;

/// Bytes of a header line at most.
const LONGEST_LINE: u64 = 4096;

/// Form of the frames.
enum Form {
    /// Known by the first bytes.
    Unknown,
    Raw {
        height: usize,
        width: usize,
    },
    Images,
    Video {
        height: usize,
        width: usize,
        /// Bytes of the colours of a frame, behind its brightness.
        colours: usize,
    },
}

/// A pipe of frames.
pub(super) struct PipeFeed {
    input: BufReader<Box<dyn Read + Send>>,
    form: Form,
    stack: Stack,
    sample_seconds: Option<f64>,
    begun: bool,
    /// Name for messages.
    name: String,
    /// Frames that were read.
    frames: u64,
    bytes: Vec<u8>,
    words: Vec<u16>,
}

impl PipeFeed {
    pub(super) fn new(input: Box<dyn Read + Send>, from: &LiveInput) -> Result<Self> {
        let form = match from.frames {
            Some((height, width)) => {
                frame_bytes(height, width, 1)?;
                Form::Raw { height, width }
            }
            None => Form::Unknown,
        };
        Ok(Self {
            input: BufReader::with_capacity(1 << 20, input),
            form,
            stack: Stack::new(View::of(&from.as_input())),
            sample_seconds: from.sample_seconds,
            begun: false,
            name: "standard input".to_owned(),
            frames: 0,
            bytes: Vec::new(),
            words: Vec::new(),
        })
    }

    /// A named pipe or a device.
    pub(super) fn open(path: &Path, from: &LiveInput) -> Result<Self> {
        Ok(Self {
            name: path.display().to_string(),
            ..Self::new(Box::new(Fifo::new(path)), from)?
        })
    }

    /// Finds out the form of the frames; false at the end of the pipe.
    fn begin(&mut self) -> Result<bool> {
        if !matches!(self.form, Form::Unknown) {
            return Ok(true);
        }
        let begins = loop {
            match self.input.fill_buf() {
                Ok(bytes) => break bytes.get(..bytes.len().min(2)).unwrap_or_default().to_vec(),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(&e)),
            }
        };
        self.form = match &begins[..] {
            [] => return Ok(false),
            b"P5" | b"P6" | b"P" => Form::Images,
            b"YU" | b"Y" => {
                let line = self.line()?;
                let header = VideoHeader::parse(&line).map_err(Error::recording)?;
                self.sample_seconds = self.sample_seconds.or(header.frame_seconds);
                frame_bytes(header.height, header.width, 3)?;
                Form::Video {
                    height: header.height,
                    width: header.width,
                    colours: header.colours,
                }
            }
            _ => {
                return Err(Error::recording(
                    "expected PGM or PPM images (P5, P6), YUV4MPEG2, or raw bytes with --frames H,W, got something \
                     else",
                ));
            }
        };
        Ok(true)
    }

    /// A line of text without its end; empty at the end of the pipe.
    fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        let read = (&mut self.input)
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line);
        read.map_err(|e| failed(&e))?;
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// Fills `bytes`; false at the end of the pipe, also within a frame.
    fn fill(&mut self, count: usize) -> Result<bool> {
        self.bytes.clear();
        if self.bytes.try_reserve(count).is_err() {
            return Err(Error::no_memory("a frame", count));
        }
        let got = (&mut self.input)
            .take(count as u64)
            .read_to_end(&mut self.bytes)
            .map_err(|e| failed(&e))?;
        if got == count {
            return Ok(true);
        }
        if got > 0 {
            eprintln!("the pipe ended within a frame, {got} of {count} bytes; it is left out");
        }
        Ok(false)
    }

    /// Reads a frame into the stack; false at the end of the pipe.
    fn frame(&mut self) -> Result<bool> {
        if !self.begin()? {
            return Ok(false);
        }
        match self.form {
            Form::Unknown => Ok(false),
            Form::Raw { height, width } => {
                if !self.fill(height * width)? {
                    return Ok(false);
                }
                self.push(width, height, 1, false)
            }
            Form::Video {
                height,
                width,
                colours,
            } => {
                let line = self.line()?;
                if line.is_empty() {
                    return Ok(false);
                }
                if !line.starts_with("FRAME") {
                    return Err(Error::recording(format!(
                        "YUV4MPEG2: expected FRAME, got {:?}",
                        line.chars().take(40).collect::<String>()
                    )));
                }
                if !self.fill(height * width + colours)? {
                    return Ok(false);
                }
                self.bytes.truncate(height * width);
                self.push(width, height, 1, false)
            }
            Form::Images => self.image(),
        }
    }

    fn image(&mut self) -> Result<bool> {
        let wrong = |got: &str| {
            Error::recording(format!("expected a binary PGM (P5) or PPM (P6), got {got}"))
        };
        let channels = match self.word()?.as_str() {
            "" => return Ok(false),
            "P5" => 1,
            "P6" => 3,
            other => return Err(wrong(&format!("{other:?}"))),
        };
        let mut number = || -> Result<usize> {
            let word = self.word()?;
            (word.parse()).map_err(|_| wrong(&format!("a head with {word:?} in place of a number")))
        };
        let (width, height, most) = (number()?, number()?, number()?);
        if width == 0 || height == 0 || !(1..=65_535).contains(&most) {
            return Err(wrong(&format!(
                "{height} × {width} pixels of at most {most}"
            )));
        }
        let wide = most > 255;
        let count = frame_bytes(height, width, channels * (1 + usize::from(wide)))?;
        if !self.fill(count)? {
            return Ok(false);
        }
        self.push(width, height, channels, wide)
    }

    /// A word of an image's head and the blank behind it; comments are left out. Empty at the end of the pipe.
    fn word(&mut self) -> Result<String> {
        let mut word = String::new();
        let mut comment = false;
        loop {
            let mut byte = [0];
            match self.input.read(&mut byte) {
                Ok(0) => return Ok(word),
                Ok(_) => {}
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(failed(&e)),
            }
            match byte[0] {
                b'\n' | b'\r' if comment => comment = false,
                _ if comment => {}
                b'#' if word.is_empty() => comment = true,
                blank if blank.is_ascii_whitespace() => {
                    if !word.is_empty() {
                        return Ok(word);
                    }
                }
                _ if word.len() == 20 => return Ok(word),
                other => word.push(char::from(other)),
            }
        }
    }

    fn push(&mut self, width: usize, height: usize, channels: usize, wide: bool) -> Result<bool> {
        let samples = if wide {
            let (pairs, _) = self.bytes.as_chunks::<2>();
            self.words.clear();
            self.words
                .extend(pairs.iter().map(|p| u16::from_be_bytes(*p)));
            self.words[..].into()
        } else {
            self.bytes[..].into()
        };
        self.stack.push(&Frame {
            width,
            height,
            channels,
            samples,
        })?;
        Ok(true)
    }
}

impl Feed for PipeFeed {
    fn next(&mut self, pieces: &mut Vec<Piece>, _: Duration) -> Result<Answer> {
        // A read waits for the writer, however long that takes; the reader's thread ends with the program.
        let read = self.frame().map_err(|e| match e.kind() {
            // An option that no frame fits.
            ErrorKind::InvalidArgument => e,
            _ if e.message().starts_with("frame ") => e.at(&self.name),
            _ => e.at(format_args!("{}: frame {}", self.name, self.frames)),
        });
        if !read? {
            return Ok(Answer::Ended);
        }
        self.frames += 1;
        push_frames(
            &mut self.stack,
            &mut self.begun,
            self.sample_seconds,
            pieces,
        );
        Ok(Answer::Pieces)
    }

    fn waits(&self) -> bool {
        true
    }
}

fn failed(e: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("reading frames: {e}"))
}

/// Bytes of a frame, which memory has room for.
fn frame_bytes(height: usize, width: usize, per_pixel: usize) -> Result<usize> {
    let bytes = height
        .checked_mul(width)
        .and_then(|n| n.checked_mul(per_pixel));
    let bytes = bytes.unwrap_or(usize::MAX);
    memory::plan("a frame", bytes as u128)?;
    Ok(bytes)
}

/// Header of YUV4MPEG2.
#[derive(Debug, PartialEq)]
struct VideoHeader {
    width: usize,
    height: usize,
    colours: usize,
    frame_seconds: Option<f64>,
}

impl VideoHeader {
    fn parse(line: &str) -> std::result::Result<Self, String> {
        let wrong = || format!("expected a header YUV4MPEG2 W… H…, got {line:?}");
        let fields = line.strip_prefix("YUV4MPEG2 ").ok_or_else(wrong)?;
        let field = |key: char| fields.split(' ').find_map(|f| f.strip_prefix(key));
        let side = |key| field(key)?.parse().ok().filter(|n: &usize| *n > 0);
        let (Some(width), Some(height)) = (side('W'), side('H')) else {
            return Err(wrong());
        };
        let half = |n: usize| n.div_ceil(2);
        let colour = field('C').unwrap_or("420jpeg");
        let colours = match colour {
            "mono" => Some(0),
            "420" | "420jpeg" | "420paldv" | "420mpeg2" => half(height)
                .checked_mul(half(width))
                .and_then(|n| n.checked_mul(2)),
            "422" => half(width)
                .checked_mul(height)
                .and_then(|n| n.checked_mul(2)),
            "444" => width.checked_mul(height).and_then(|n| n.checked_mul(2)),
            _ => {
                return Err(format!(
                    "YUV4MPEG2: expected 8 bits per sample (Cmono, C420, C422 or C444), got C{colour}; ffmpeg's -pix_fmt gray \
                     writes Cmono"
                ));
            }
        };
        let rate = || {
            let (frames, seconds) = field('F')?.split_once(':')?;
            let (frames, seconds): (f64, f64) = (frames.parse().ok()?, seconds.parse().ok()?);
            Some(seconds / frames).filter(|s| *s > 0.0 && s.is_finite())
        };
        Ok(Self {
            width,
            height,
            colours: colours.ok_or_else(wrong)?,
            frame_seconds: rate(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz::recording::arrays::Values;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        from: LiveInput,
    }

    /// The frames that `bytes` hold, and the error at their end if there is one.
    fn read(bytes: &[u8], line: &str) -> (Vec<Values>, Option<f64>, Option<Error>) {
        let line = Line::parse_from(std::iter::once("x").chain(line.split_whitespace()));
        let mut feed =
            PipeFeed::new(Box::new(std::io::Cursor::new(bytes.to_vec())), &line.from).unwrap();
        let (mut frames, mut seconds) = (Vec::new(), None);
        loop {
            let mut pieces = Vec::new();
            let fed = match feed.next(&mut pieces, Duration::ZERO) {
                Ok(fed) => fed,
                Err(e) => return (frames, seconds, Some(e)),
            };
            for piece in pieces {
                match piece {
                    Piece::Facts(facts) => seconds = facts.sample_seconds,
                    Piece::Rows(values) => frames.push(values),
                    Piece::Gap(_) => panic!("no gap"),
                }
            }
            if fed == Answer::Ended {
                return (frames, seconds, None);
            }
        }
    }

    #[test]
    fn images_of_a_pipe_follow_each_other() {
        let mut bytes = b"P5 # a comment\n2 2\n255\n\x01\x02\x03\x04P5\n2\n2 255 ".to_vec();
        bytes.extend([5, 6, 7, 10, b'\n', b'P', b'5']);
        bytes.extend(b"\n2 2 255\n\x01");
        let (frames, _, error) = read(&bytes, "");
        assert_eq!(
            frames,
            [Values::U8(vec![1, 2, 3, 4]), Values::U8(vec![5, 6, 7, 10])]
        );
        // The third was cut off.
        assert!(error.is_none());
        let (frames, ..) = read(b"P5 1 2 65535\n\x01\x02\x03\x04", "");
        assert_eq!(frames, [Values::U16(vec![0x102, 0x304])]);
        let (frames, ..) = read(b"P6 1 1 255\n\x01\x02\x03", "--channel blue");
        assert_eq!(frames, [Values::U8(vec![3])]);
    }

    #[test]
    fn videos_give_their_brightness_and_rate() {
        let mut bytes = b"YUV4MPEG2 W3 H2 F25:1 Ip C420jpeg\n".to_vec();
        for start in [1, 11] {
            bytes.extend(b"FRAME\n");
            bytes.extend(start..start + 6);
            bytes.extend([128; 4]);
        }
        let (frames, seconds, error) = read(&bytes, "");
        assert!(error.is_none() && seconds == Some(0.04));
        assert_eq!(frames[1], Values::U8((11..17).collect()));
        assert_eq!(frames.len(), 2);
        let header = VideoHeader::parse("YUV4MPEG2 W3 H2 C422").unwrap();
        assert_eq!((header.colours, header.frame_seconds), (8, None));
        assert_eq!(
            VideoHeader::parse("YUV4MPEG2 W3 H2 Cmono").unwrap().colours,
            0
        );
    }

    #[test]
    fn raw_bytes_are_frames_of_the_size_that_was_said() {
        let (frames, seconds, error) = read(
            &[1, 2, 3, 4, 5, 6, 7],
            "--frames 1,3 --sample-seconds 0.5 --region 1,0,2,1",
        );
        assert_eq!(frames, [Values::U8(vec![2, 3]), Values::U8(vec![5, 6])]);
        assert!(error.is_none() && seconds == Some(0.5));
    }

    #[test]
    fn other_bytes_are_refused_in_words() {
        for (bytes, line, words) in [
            (&b"RIFF"[..], "", "or raw bytes with --frames H,W"),
            (b"P5 2 x 255\n", "", "\"x\" in place of a number"),
            (b"P5 2 0 255\n", "", "0 × 2 pixels"),
            (b"P5 1 1 255\n\x01P7 ", "", "\"P7\""),
            (
                b"P5 1 1 255\n\x01P5 1 2 255\n\x01\x02",
                "",
                "frame 1: expected",
            ),
            (b"YUV4MPEG2 W3\n", "", "expected a header"),
            (
                b"YUV4MPEG2 W3 H2 C420p10\n",
                "",
                "expected 8 bits per sample",
            ),
            (b"YUV4MPEG2 W1 H1 Cmono\nFRAMX\n", "", "expected FRAME"),
            (
                b"P5 1 1 255\n\x01",
                "--channel hue",
                "--channel: expected grey",
            ),
            (b"P5 99999999 99999999 255\n", "", "a frame: expected"),
        ] {
            let (_, _, error) = read(bytes, line);
            let error = error.unwrap();
            assert!(error.message().contains(words), "{words}: {error}");
        }
    }
}
