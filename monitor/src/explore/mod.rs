//! What is looked at, not run: recordings, networks, mined episodes, maps.

pub(crate) mod counted;
pub(crate) mod episodes;
pub(crate) mod job;
pub(crate) mod lately;
pub(crate) mod map;
pub(crate) mod network;
pub(crate) mod recorded;

use crate::explore::episodes::MinedEpisodes;
use crate::explore::map::MapView;
use crate::explore::network::NamedNetwork;
use crate::explore::recorded::DecodedRecording;

/// What a page shows when no session runs; at least one of something.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// Recordings, with what a model made of them.
    pub recordings: Vec<DecodedRecording>,
    /// Networks over windows.
    pub networks: Vec<NamedNetwork>,
    /// Episodes that were mined of the recordings.
    pub mined: Vec<MinedEpisodes>,
    /// Self-organising maps.
    pub maps: Vec<MapView>,
    /// What lies below the nodes: a PNG or a JPEG, at its pixels' coordinates unless said otherwise.
    pub image: Option<Image>,
}

impl From<Vec<DecodedRecording>> for Contents {
    fn from(recordings: Vec<DecodedRecording>) -> Self {
        Self {
            recordings,
            ..Self::default()
        }
    }
}

/// A picture below the nodes of networks.
#[derive(Debug, Clone)]
pub struct Image {
    /// A PNG's or a JPEG's.
    pub bytes: Vec<u8>,
    /// Where it lies in the nodes' coordinates: left, top, right, bottom; `None`: a unit a pixel from (0, 0).
    pub extent: Option<[f64; 4]>,
}

impl Image {
    /// Its type; `None` for what is neither PNG nor JPEG.
    pub(crate) fn kind(&self) -> Option<&'static str> {
        if self.bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            Some("image/png")
        } else if self.bytes.starts_with(b"\xff\xd8\xff") {
            Some("image/jpeg")
        } else {
            None
        }
    }
}
