//! Flow control of one viewer: at most two undrawn messages are on their way to it; further frames are joined.
//!
//! Without such a bound, the sockets' buffers would hold seconds of frames, and a slow page would show the past. Frames
//! are self-contained, so joining them is concatenation.

use std::collections::VecDeque;
use std::future::Future;

use bytes::{Bytes, BytesMut};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Largest number of messages that a viewer has not drawn yet.
pub(crate) const IN_FLIGHT: u32 = 2;
/// Largest number of frames that wait for a viewer: two seconds.
pub(crate) const WAITING: usize = 120;
/// Largest number of bytes that wait for a viewer.
const WAITING_BYTES: usize = 16 << 20;

/// Queue of frames for a viewer, and the number of messages that may be sent to it now.
#[derive(Debug)]
pub(crate) struct Credit {
    room: u32,
    waiting: VecDeque<Bytes>,
    bytes: usize,
}

impl Credit {
    pub(crate) fn new() -> Self {
        Self {
            room: IN_FLIGHT,
            waiting: VecDeque::with_capacity(WAITING),
            bytes: 0,
        }
    }

    /// Adds a frame; returns the number of old frames that were dropped to make room.
    pub(crate) fn offer(&mut self, frame: Bytes) -> u64 {
        self.bytes += frame.len();
        self.waiting.push_back(frame);
        let mut gone = 0;
        while self.waiting.len() > WAITING || (self.bytes > WAITING_BYTES && self.waiting.len() > 1)
        {
            if let Some(old) = self.waiting.pop_front() {
                self.bytes -= old.len();
                gone += 1;
            }
        }
        gone
    }

    /// Records that the page has drawn this many messages.
    pub(crate) fn drawn(&mut self, messages: u32) {
        self.room = self.room.saturating_add(messages).min(IN_FLIGHT);
    }

    /// Returns the next message, which holds all waiting frames, if the viewer may get one.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        if self.room == 0 || self.waiting.is_empty() {
            return None;
        }
        self.room -= 1;
        let bytes = std::mem::take(&mut self.bytes);
        if self.waiting.len() == 1 {
            return self.waiting.pop_front();
        }
        let mut all = BytesMut::with_capacity(bytes);
        self.waiting
            .drain(..)
            .for_each(|f| all.extend_from_slice(&f));
        Some(all.freeze())
    }
}

/// Message from a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FromPage {
    /// Number of messages that the page has drawn.
    Drawn(u32),
    /// Any other message, which is ignored.
    Other,
    /// The connection is closed.
    Gone,
}

impl FromPage {
    /// Reads a binary message: four bytes are a count of drawn messages, little-endian; others are ignored.
    pub(crate) fn said(bytes: &[u8]) -> Self {
        <[u8; 4]>::try_from(bytes).map_or(Self::Other, |b| Self::Drawn(u32::from_le_bytes(b)))
    }
}

/// A page at the other end of a connection.
pub(crate) trait Page {
    /// Sends a message; `false` when the page is gone.
    fn send(&mut self, message: Bytes) -> impl Future<Output = bool> + Send;
    /// Receives the next message. Dropping the future and calling again loses nothing.
    fn receive(&mut self) -> impl Future<Output = FromPage> + Send;
}

/// Sends `frames` to a page until either of them ends; calls `skipped` with the number of frames left out.
pub(crate) async fn serve<P: Page>(
    mut page: P,
    mut frames: broadcast::Receiver<Bytes>,
    skipped: impl Fn(u64),
) {
    let mut credit = Credit::new();
    loop {
        if let Some(message) = credit.next()
            && !page.send(message).await
        {
            return;
        }
        tokio::select! {
            frame = frames.recv() => match frame {
                Ok(frame) => match credit.offer(frame) {
                    0 => {}
                    gone => skipped(gone),
                },
                Err(RecvError::Lagged(gone)) => skipped(gone),
                Err(RecvError::Closed) => return,
            },
            said = page.receive() => match said {
                FromPage::Drawn(messages) => credit.drawn(messages),
                FromPage::Other => {}
                FromPage::Gone => return,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    #[derive(Default)]
    struct Log {
        messages: Vec<Bytes>,
        in_flight: u32,
        most: u32,
    }

    /// A page that draws messages at a fixed interval.
    struct Slow {
        log: Arc<Mutex<Log>>,
        every: Duration,
        /// Time of the next draw; kept because `receive` is cancelled and called again in between.
        next: tokio::time::Instant,
    }

    impl Page for Slow {
        async fn send(&mut self, message: Bytes) -> bool {
            let mut log = self.log.lock().unwrap();
            log.messages.push(message);
            log.in_flight += 1;
            log.most = log.most.max(log.in_flight);
            true
        }

        async fn receive(&mut self) -> FromPage {
            loop {
                tokio::time::sleep_until(self.next).await;
                self.next += self.every;
                let mut log = self.log.lock().unwrap();
                if log.in_flight > 0 {
                    log.in_flight -= 1;
                    return FromPage::Drawn(1);
                }
            }
        }
    }

    /// Sends 60 frames per second for `seconds` to a page that draws every `every`.
    async fn watched(every: Duration, seconds: u64) -> (Vec<u8>, u32, u64) {
        let (send, receive) = broadcast::channel(8);
        let log = Arc::new(Mutex::new(Log::default()));
        let skipped = Arc::new(Mutex::new(0));
        let (page, count) = (
            Slow {
                log: log.clone(),
                every,
                next: tokio::time::Instant::now() + every,
            },
            skipped.clone(),
        );
        let task = tokio::spawn(serve(page, receive, move |n| *count.lock().unwrap() += n));
        for i in 0..seconds * 60 {
            let _ = send.send(Bytes::from(vec![i as u8]));
            tokio::time::sleep(Duration::from_micros(16_667)).await;
        }
        tokio::time::sleep(every * 4).await;
        drop(send);
        task.await.unwrap();
        let log = log.lock().unwrap();
        let skipped = *skipped.lock().unwrap();
        (log.messages.concat(), log.most, skipped)
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_draws_three_times_a_second_loses_nothing() {
        let (all, most, skipped) = watched(Duration::from_millis(333), 10).await;
        // Joined frames are the single frames, concatenated.
        let whole: Vec<u8> = (0..600u32).map(|i| i as u8).collect();
        assert_eq!(all, whole);
        assert!(most <= IN_FLIGHT);
        assert_eq!(skipped, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_page_has_two_messages_on_their_way_and_all_else_is_counted() {
        let (all, most, skipped) = watched(Duration::from_secs(8), 8).await;
        assert_eq!(most, IN_FLIGHT);
        assert_eq!(all.len() as u64 + skipped, 480);
        assert!(
            skipped >= 480 - 2 - 2 * WAITING as u64,
            "{skipped} were skipped"
        );
        assert!(skipped > 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_keeps_up_has_every_frame_as_it_comes() {
        let (all, _, skipped) = watched(Duration::from_millis(5), 2).await;
        assert_eq!((all.len(), skipped), (120, 0));
    }

    #[test]
    fn a_page_cannot_ask_for_more_than_two() {
        let mut credit = Credit::new();
        credit.drawn(u32::MAX);
        for sent in 0..5 {
            credit.offer(Bytes::from_static(b"x"));
            assert_eq!(credit.next().is_some(), sent < IN_FLIGHT, "message {sent}");
        }
    }

    proptest! {
        /// For any messages of a page, at most two messages are undrawn, none is sent twice or out of order, and every
        /// missing frame was counted.
        #[test]
        fn whatever_a_page_says_its_credit_holds(
            said in vec(prop_oneof![vec(any::<u8>(), 0..9), (0u32..4).prop_map(|n| n.to_le_bytes().to_vec())], 0..300)
        ) {
            let (mut credit, mut allowed, mut sent, mut gone) = (Credit::new(), u64::from(IN_FLIGHT), Vec::new(), 0);
            for (i, bytes) in said.iter().enumerate() {
                gone += credit.offer(Bytes::from((i as u16).to_le_bytes().to_vec()));
                if let Some(message) = credit.next() {
                    prop_assert!(allowed > 0, "a message without credit");
                    allowed -= 1;
                    sent.extend(message.chunks(2).map(|c| u16::from_le_bytes([c[0], c[1]])));
                }
                match FromPage::said(bytes) {
                    FromPage::Drawn(n) => {
                        prop_assert_eq!(&n.to_le_bytes()[..], &bytes[..]);
                        credit.drawn(n);
                        allowed = (allowed + u64::from(n)).min(u64::from(IN_FLIGHT));
                    }
                    other => {
                        prop_assert_ne!(bytes.len(), 4);
                        prop_assert_eq!(other, FromPage::Other);
                    }
                }
            }
            credit.drawn(1);
            if let Some(rest) = credit.next() {
                sent.extend(rest.chunks(2).map(|c| u16::from_le_bytes([c[0], c[1]])));
            }
            prop_assert!(sent.windows(2).all(|w| w[0] < w[1]));
            prop_assert_eq!(sent.len() as u64 + gone, said.len() as u64);
        }
    }
}
