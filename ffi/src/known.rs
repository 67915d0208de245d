//! Decoders that a session may be running: a mask is prepared for one of them.

use std::sync::Arc;

use betz::model::{Decoder, LogVariance};

/// A decoder that the session received.
#[derive(Debug)]
pub(crate) struct KnownDecoder {
    fingerprint: u64,
    decoder: Arc<Decoder>,
}

/// Decoders that a session may be running, from the oldest to the newest.
#[derive(Debug)]
pub(crate) struct KnownDecoders(Vec<KnownDecoder>);

impl KnownDecoders {
    /// Starts with the decoder that the session was opened with.
    pub(crate) fn new(first: KnownDecoder) -> Self {
        // The list holds at most the running decoder, the newest and the next: it never reallocates.
        let mut all = Vec::with_capacity(3);
        all.push(first);
        Self(all)
    }

    /// Adds a decoder that the session received. Keeps the running decoder and the newest before it: the
    /// session cannot return to any other.
    pub(crate) fn add(&mut self, next: KnownDecoder, running: u64) {
        let newest = self.0.last().map(|known| known.fingerprint);
        self.0.retain(|known| {
            let may_run = known.fingerprint == running || Some(known.fingerprint) == newest;
            may_run && known.fingerprint != next.fingerprint
        });
        self.0.push(next);
    }

    /// The decoder with that fingerprint.
    pub(crate) fn find(&self, fingerprint: u64) -> Option<Arc<Decoder>> {
        let found = self.0.iter().find(|known| known.fingerprint == fingerprint);
        found.map(|known| Arc::clone(&known.decoder))
    }
}

impl KnownDecoder {
    /// Records `decoder` with the fingerprint of a model prepared from it, without data that a session does
    /// not need, such as the stored statistics.
    pub(crate) fn new(fingerprint: u64, decoder: Arc<Decoder>) -> betz::Result<Self> {
        let decoder = for_steps(decoder)?;
        Ok(Self {
            fingerprint,
            decoder,
        })
    }
}

/// The decoder without what a session does not need, such as stored statistics.
pub(crate) fn for_steps(decoder: Arc<Decoder>) -> betz::Result<Arc<Decoder>> {
    let needed = |tag: &[u8; 4]| *tag == LogVariance::TAG;
    if decoder.parts().attachments.iter().all(|a| needed(&a.tag)) {
        return Ok(decoder);
    }
    let mut parts = Arc::unwrap_or_clone(decoder).into_parts();
    parts.attachments.retain(|a| needed(&a.tag));
    Ok(Arc::new(Decoder::new(parts)?))
}
