//! Counts of a source or a sink.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! tally {
    ($($(#[$doc:meta])+ $name:ident,)*) => {
        /// Counts of one end of a session.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Counts { $($(#[$doc])+ pub $name: u64,)* }

        /// [`Counts`] that one thread keeps and others read.
        #[derive(Debug, Default)]
        pub struct Tally { $($(#[$doc])+ pub $name: Count,)* }

        impl Tally {
            /// The counts now.
            pub fn counts(&self) -> Counts {
                Counts { $($name: self.$name.get(),)* }
            }
        }

        impl Counts {
            /// Names and numbers, in the order of the fields.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }

            /// The sums of both.
            pub fn plus(self, other: Self) -> Self {
                Self { $($name: self.$name + other.$name,)* }
            }
        }
    };
}

tally! {
    /// Messages that came or went.
    messages,
    /// Steps that they made.
    steps,
    /// Steps that never came, by the sender's numbers; of Cerebus its packets.
    lost,
    /// Steps that came after their turn, or spikes after their step. Such a step is left out, such a spike is taken in
    /// the step that is open.
    late,
    /// Steps that came twice.
    duplicated,
    /// Messages that are not what they should be: cut short, of another kind, of other channels.
    malformed,
    /// Parts of messages that are well-formed and no concern of a decoder.
    ignored,
    /// Steps that came and found the hand-over full.
    dropped,
    /// Steps that could not be sent.
    unsent,
    /// Connections that were lost and made again.
    reconnects,
    /// Times that the sender began anew, or its clock jumped.
    restarts,
}

/// A number that one thread counts and others read.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Counts `more`.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Takes one back.
    pub fn take_back(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
