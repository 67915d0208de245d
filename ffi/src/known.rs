//! Decoders that a session may be running: a mask is prepared for one of them.

use std::sync::Arc;

use betz::model::{Decoder, LogVariance};

/// A decoder that a session was given.
#[derive(Debug)]
pub(crate) struct KnownDecoder {
    fingerprint: u64,
    decoder: Arc<Decoder>,
}

/// Decoders that a session may be running, the newest last.
#[derive(Debug)]
pub(crate) struct KnownDecoders(Vec<KnownDecoder>);

impl KnownDecoders {
    /// With the one that the session was opened with.
    pub(crate) fn new(first: KnownDecoder) -> Self {
        // With the running one, the newest and the next the list never grows.
        let mut all = Vec::with_capacity(3);
        all.push(first);
        Self(all)
    }

    /// Adds a decoder that the session was given. Of those before, the running one and the newest stay: the
    /// session can go back to no other.
    pub(crate) fn add(&mut self, next: KnownDecoder, running: u64) {
        let newest = self.0.last().map(|known| known.fingerprint);
        self.0.retain(|known| {
            let may_run = known.fingerprint == running || Some(known.fingerprint) == newest;
            may_run && known.fingerprint != next.fingerprint
        });
        self.0.push(next);
    }

    /// The decoder of that fingerprint.
    pub(crate) fn find(&self, fingerprint: u64) -> Option<Arc<Decoder>> {
        let found = self.0.iter().find(|known| known.fingerprint == fingerprint);
        found.map(|known| Arc::clone(&known.decoder))
    }
}

impl KnownDecoder {
    /// Notes `decoder`, whose fingerprint is that of a model prepared from it, without what a session does not
    /// need, such as the sums that it retains.
    pub(crate) fn new(fingerprint: u64, decoder: Arc<Decoder>) -> betz::Result<Self> {
        let decoder = for_steps(decoder)?;
        Ok(Self {
            fingerprint,
            decoder,
        })
    }
}

fn for_steps(decoder: Arc<Decoder>) -> betz::Result<Arc<Decoder>> {
    let needed = |tag: &[u8; 4]| *tag == LogVariance::TAG;
    if decoder.parts().attachments.iter().all(|a| needed(&a.tag)) {
        return Ok(decoder);
    }
    let mut parts = Arc::unwrap_or_clone(decoder).into_parts();
    parts.attachments.retain(|a| needed(&a.tag));
    Ok(Arc::new(Decoder::new(parts)?))
}
