//! Frames of a recording: a head of 48 bytes and a body, each with its check sum.
//!
//! ```text
//! 0 "BREC" │ 4 u16 source, u16 kind │ 8 u32 bytes of the body │ 12 u32 CRC-32 of bytes 0–11
//! 16 u64 number │ 24 u64 first │ 32 u32 count │ 36 u32 CRC-32 of bytes 16–35, 40–47 and the body │ 40 i64 host_ns
//! ```
//!
//! All little-endian. Numbers rise by 1 per frame, over all segments of a folder.

/// Bytes of a head.
pub const HEAD: usize = 48;
/// Bytes that a frame begins with.
pub const MAGIC: [u8; 4] = *b"BREC";
/// Most bytes of a body: more is a damaged length.
pub(crate) const LONGEST_BODY: usize = 1 << 28;

/// Kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Kind {
    /// Rows of int16.
    Voltage = 1,
    /// Spikes: per spike u64 tick, u32 channel, u32 unit.
    Spikes = 2,
    /// Rows of f32.
    Features = 3,
    /// A step: its number is `first`; the body is u32 status, u64 device time of its end, and one f32 per output.
    Step = 4,
    /// True outputs of the step `first`: one f32 per output.
    Label = 5,
    /// A text at the step `first`.
    Mark = 6,
    /// A trial at the step `first`; the body is one byte: 1 begins, 2 ends, 3 ends and is not to be learned from.
    Trial = 7,
    /// A decision of the loop at the step `first`, which the outputs depend on. The body is one
    /// byte: 1, made without data; 2 and the u64 fingerprint of a model, which is swapped in; 3, rolled back to the model before;
    /// 4, the step's place in the device time of a source: u8 (1 for the epoch of its next block), u64 row, f64 rows per step;
    /// 5 and the u64 number of a later step, before which all are left out because the decoder is slow.
    Decision = 8,
    /// A new epoch of the source's clock, `first`.
    Epoch = 9,
    /// `first` rows are missing before the next block; the body is one byte: 1, at least.
    Loss = 10,
    /// The session's state at the open step `first`. The body is one byte and the state: 1, to resume from; 2, a session that was
    /// killed goes on from it.
    Checkpoint = 12,
    /// The facts of the session or, before its first block, of a source beside the first, as JSON.
    Configuration = 13,
    /// The session has ended as asked.
    End = 14,
    /// `first` frames were not recorded here, because the writer was behind or the disk full. `count` of them had numbers, the last
    /// of which this one has.
    Unrecorded = 15,
    /// A line of the log at the step `first`, as a JSON object.
    Event = 16,
    /// A digital line of a source, number `count`, changes at the row `first`; the body is u8 (1 up, 0 down) and the u32 epoch.
    Line = 17,
}

impl Kind {
    const ALL: [Self; 16] = [
        Self::Label,
        Self::Mark,
        Self::Trial,
        Self::Voltage,
        Self::Spikes,
        Self::Features,
        Self::Step,
        Self::Decision,
        Self::Epoch,
        Self::Loss,
        Self::Checkpoint,
        Self::Configuration,
        Self::End,
        Self::Unrecorded,
        Self::Event,
        Self::Line,
    ];

    fn from_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u16 == code)
    }
}

/// Head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Number of the source in the plan; 0 for what is of no source.
    pub source: u16,
    /// Kind of the body.
    pub kind: Kind,
    /// Number of the frame.
    pub number: u64,
    /// First row, tick or step; see [`Kind`].
    pub first: u64,
    /// Rows or items of the body.
    pub count: u32,
    /// Time by the host's clock in nanoseconds.
    pub host_ns: i64,
}

impl Head {
    /// The head of a body of `length` bytes, without check sums: the recorder's thread writes them.
    pub(super) fn to_bytes(self, length: usize) -> [u8; HEAD] {
        let mut out = [0; HEAD];
        out[..4].copy_from_slice(&MAGIC);
        out[4..6].copy_from_slice(&self.source.to_le_bytes());
        out[6..8].copy_from_slice(&(self.kind as u16).to_le_bytes());
        out[8..12].copy_from_slice(&(length as u32).to_le_bytes());
        out[16..24].copy_from_slice(&self.number.to_le_bytes());
        out[24..32].copy_from_slice(&self.first.to_le_bytes());
        out[32..36].copy_from_slice(&self.count.to_le_bytes());
        out[40..48].copy_from_slice(&self.host_ns.to_le_bytes());
        out
    }

    /// The head of a whole frame, whose sums are not looked at; `None` for an unknown kind.
    pub(super) fn read(frame: &[u8]) -> Option<Self> {
        let head = frame.first_chunk::<HEAD>()?;
        Some(Self {
            source: u16::from_le_bytes(word(head, 4)),
            kind: Kind::from_code(u16::from_le_bytes(word(head, 6)))?,
            number: u64::from_le_bytes(word(head, 16)),
            first: u64::from_le_bytes(word(head, 24)),
            count: u32::from_le_bytes(word(head, 32)),
            host_ns: i64::from_le_bytes(word(head, 40)),
        })
    }
}

/// The whole frames at the start of `bytes`, which are not damaged.
pub(super) fn each(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let head = rest.first_chunk::<HEAD>()?;
        let length = HEAD + u32::from_le_bytes(word(head, 8)) as usize;
        let (frame, after) = rest.split_at_checked(length)?;
        rest = after;
        Some(frame)
    })
}

/// Bytes of the whole frames at the start of `bytes`, which are not damaged.
pub(super) fn whole(bytes: &[u8]) -> usize {
    each(bytes).map(<[u8]>::len).sum()
}

/// Writes the check sums of the whole frames at the start of `bytes`.
pub(super) fn seal_all(mut bytes: &mut [u8]) {
    while let Some(head) = bytes.first_chunk::<HEAD>() {
        let length = HEAD + u32::from_le_bytes(word(head, 8)) as usize;
        let Some((frame, rest)) = bytes.split_at_mut_checked(length) else {
            return;
        };
        seal(frame);
        bytes = rest;
    }
}

/// Writes the check sums of a whole frame.
fn seal(frame: &mut [u8]) {
    let Some((head, body)) = frame.split_first_chunk_mut::<HEAD>() else {
        return;
    };
    let sum = crc32fast::hash(&head[..12]);
    head[12..16].copy_from_slice(&sum.to_le_bytes());
    let sum = body_sum(head, body);
    head[36..40].copy_from_slice(&sum.to_le_bytes());
}

fn body_sum(head: &[u8; HEAD], body: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&head[16..36]);
    sum.update(&head[40..48]);
    sum.update(body);
    sum.finalize()
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut word = [0; N];
    word.copy_from_slice(&bytes[at..at + N]);
    word
}

/// Answer of [`open`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// A whole frame of so many bytes.
    Frame(Head, usize),
    /// Too few bytes for a frame that has begun: at least so many are needed.
    Short(usize),
    /// No frame, or a damaged one.
    Damaged,
}

/// Reads the frame at the start of `bytes`.
pub fn open(bytes: &[u8]) -> Scan {
    let Some(head) = bytes.first_chunk::<HEAD>() else {
        return Scan::Short(HEAD);
    };
    if head[..4] != MAGIC || crc32fast::hash(&head[..12]).to_le_bytes() != head[12..16] {
        return Scan::Damaged;
    }
    let length = u32::from_le_bytes(word(head, 8)) as usize;
    let Some(read) = Head::read(head) else {
        return Scan::Damaged;
    };
    if length > LONGEST_BODY {
        return Scan::Damaged;
    }
    let Some(body) = bytes.get(HEAD..HEAD + length) else {
        return Scan::Short(HEAD + length);
    };
    if body_sum(head, body).to_le_bytes() != head[36..40] {
        return Scan::Damaged;
    }
    Scan::Frame(read, HEAD + length)
}

/// The place of the next frame's first bytes after the first byte of `bytes`.
pub fn resync(bytes: &[u8]) -> Option<usize> {
    (1..bytes.len().saturating_sub(16)).find(|&at| {
        bytes[at..at + 4] == MAGIC
            && crc32fast::hash(&bytes[at..at + 12]).to_le_bytes() == bytes[at + 12..at + 16]
    })
}
