//! Videos, decoded by the program `ffmpeg`.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, ErrorKind as IoKind, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use betz::{Error, ErrorKind, Result, memory};

use super::{Frame, Stack};

/// Bytes of a header line at most.
const LONGEST_HEADER: u64 = 4096;

/// Adds the frames of the first video stream to `stack`, at the stream's mean rate: ffmpeg repeats or leaves out
/// frames whose times differ from it. Returns the time from frame to frame.
///
/// # Errors
/// No `ffmpeg`; a file that it does not decode, with its message; a stream that ends within a frame.
pub(super) fn read(path: &Path, stack: &mut Stack) -> Result<Option<f64>> {
    let header = header(path)?;
    let (format, channels) = match stack.view.needs_colour() {
        true => ("rgb24", 3),
        false => ("gray", 1),
    };
    let mut ffmpeg = Decoding::begin(path, &["-pix_fmt", format, "-f", "rawvideo", "-"])?;
    let size = (header.width.checked_mul(header.height)).and_then(|n| n.checked_mul(channels));
    let size = size.ok_or_else(|| Error::recording("expected frames that memory can hold"))?;
    let mut bytes = memory::filled("a frame", 0_u8, size)?;
    loop {
        let got = fill(&mut ffmpeg.out, &mut bytes).map_err(|e| Error::io("read", path, &e))?;
        if got == 0 {
            break;
        }
        if got < size {
            ffmpeg.finish()?;
            return Err(Error::recording(format!(
                "frame {}: expected {} × {} pixels of {channels} bytes, got {got} bytes",
                stack.frames(),
                header.width,
                header.height
            )));
        }
        stack.push(&Frame {
            width: header.width,
            height: header.height,
            channels,
            samples: bytes[..].into(),
        })?;
    }
    ffmpeg.finish()?;
    Ok(header.frame_seconds)
}

struct Header {
    width: usize,
    height: usize,
    frame_seconds: Option<f64>,
}

/// Size and rate of the frames: the header of the first frame as YUV4MPEG2.
fn header(path: &Path) -> Result<Header> {
    let asked = [
        "-frames:v",
        "1",
        "-pix_fmt",
        "gray",
        "-f",
        "yuv4mpegpipe",
        "-",
    ];
    let mut ffmpeg = Decoding::begin(path, &asked)?;
    let mut line = Vec::new();
    let read = (&mut ffmpeg.out)
        .take(LONGEST_HEADER)
        .read_until(b'\n', &mut line);
    read.map_err(|e| Error::io("read", path, &e))?;
    // The frame itself is not needed, but ffmpeg ends only when it is read.
    std::io::copy(&mut ffmpeg.out, &mut std::io::sink())
        .map_err(|e| Error::io("read", path, &e))?;
    ffmpeg.finish()?;
    let line = String::from_utf8_lossy(&line);
    parse(&line).ok_or_else(|| {
        Error::recording(format!(
            "expected ffmpeg to give the size of the frames (YUV4MPEG2 W… H…), got {:?}",
            line.trim_end()
        ))
    })
}

fn parse(line: &str) -> Option<Header> {
    let fields = line.trim_end().strip_prefix("YUV4MPEG2 ")?;
    let field = |key: char| fields.split(' ').find_map(|f| f.strip_prefix(key));
    let side = |key| field(key)?.parse().ok().filter(|n: &usize| *n > 0);
    let rate = || {
        let (frames, seconds) = field('F')?.split_once(':')?;
        let (frames, seconds): (f64, f64) = (frames.parse().ok()?, seconds.parse().ok()?);
        Some(seconds / frames).filter(|s| *s > 0.0 && s.is_finite())
    };
    Some(Header {
        width: side('W')?,
        height: side('H')?,
        frame_seconds: rate(),
    })
}

/// A running ffmpeg. It is ended when this is dropped.
struct Decoding {
    child: Child,
    out: BufReader<ChildStdout>,
    /// Reads its messages, so that it never waits for a reader.
    said: Option<JoinHandle<String>>,
}

impl Decoding {
    fn begin(path: &Path, output: &[&str]) -> Result<Self> {
        let mut input = OsString::from("file:");
        input.push(path);
        let child = Command::new("ffmpeg")
            .args(["-nostdin", "-v", "error"])
            // The file cannot make ffmpeg open anything else than files.
            .args(["-protocol_whitelist", "file,pipe", "-i"])
            .arg(input)
            .args(["-map", "0:v:0"])
            .args(output)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|e| match e.kind() {
            IoKind::NotFound => Error::new(
                ErrorKind::Io,
                "expected the program ffmpeg, which decodes videos, got none on PATH; install it, or give a folder of images or a TIFF",
            ),
            _ => Error::new(ErrorKind::Io, format!("ffmpeg does not start: {e}")),
        })?;
        let (Some(out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(Error::new(ErrorKind::Internal, "ffmpeg has no pipes"));
        };
        let said = std::thread::spawn(move || {
            let mut text = Vec::new();
            // A part of the messages is better than none.
            let _ = err.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Ok(Self {
            child,
            out: BufReader::with_capacity(1 << 20, out),
            said: Some(said),
        })
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It failed: with the last line of its messages.
    fn finish(&mut self) -> Result<()> {
        let status = self.child.wait();
        let status = status.map_err(|e| Error::new(ErrorKind::Io, format!("ffmpeg: {e}")))?;
        let said = (self.said.take()).and_then(|said| said.join().ok());
        if status.success() {
            return Ok(());
        }
        let said = said.unwrap_or_default();
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        Err(Error::recording(format!(
            "expected a video that ffmpeg decodes, got {}",
            last.unwrap_or("no message of it").trim()
        )))
    }
}

impl Drop for Decoding {
    fn drop(&mut self) {
        if self.said.is_some() {
            // It may have ended by itself.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Reads until `bytes` is full or the stream ends; returns the number of bytes.
fn fill(from: &mut impl Read, bytes: &mut [u8]) -> std::io::Result<usize> {
    let mut got = 0;
    while got < bytes.len() {
        match from.read(&mut bytes[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == IoKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_size_and_rate() {
        let header = parse("YUV4MPEG2 W640 H480 F30000:1001 Ip A1:1 Cmono\n").unwrap();
        assert_eq!((header.width, header.height), (640, 480));
        assert!((header.frame_seconds.unwrap() - 0.033_366_666).abs() < 1e-8);
        assert_eq!(parse("YUV4MPEG2 W2 H1 F0:0\n").unwrap().frame_seconds, None);
        for wrong in ["", "YUV4MPEG2 W640\n", "YUV4MPEG2 W0 H2\n", "P5 2 1"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
