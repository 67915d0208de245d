//! Results to look at without a running session: recordings, networks, mined episodes, maps.

mod alignment;
pub(crate) mod counted;
pub(crate) mod episodes;
pub(crate) mod job;
pub(crate) mod last_minute;
pub(crate) mod map;
pub(crate) mod map_samples;
pub(crate) mod native;
pub(crate) mod network;
pub(crate) mod recorded;
pub(crate) mod trials;
pub(crate) mod unit;
pub(crate) mod windows;

use betz_recording::labels::LabelledInterval;

use crate::explore::episodes::MinedEpisodes;
use crate::explore::map::MapView;
use crate::explore::network::NamedNetwork;
use crate::explore::recorded::DecodedRecording;

/// Contents of a page without a session; at least one list is not empty.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// Recordings, each with a model's estimates.
    pub recordings: Vec<DecodedRecording>,
    /// Networks over windows.
    pub networks: Vec<NamedNetwork>,
    /// Episodes that were mined from the recordings.
    pub mined: Vec<MinedEpisodes>,
    /// Self-organising maps.
    pub maps: Vec<MapView>,
    /// Intervals with labels, in seconds of the recordings. The page aligns trials to their starts.
    pub labels: Vec<LabelledInterval>,
    /// Picture below the nodes, PNG or JPEG, placed at its pixel coordinates by default.
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
    /// File contents, PNG or JPEG.
    pub bytes: Vec<u8>,
    /// Extent in the nodes' coordinates: left, top, right, bottom; `None`: one unit per pixel from (0, 0).
    pub extent: Option<[f64; 4]>,
}

impl Image {
    /// MIME type; `None` if the bytes are neither PNG nor JPEG.
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
