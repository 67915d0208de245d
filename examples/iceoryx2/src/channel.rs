//! One service and the event that goes with it: messages of a header and a slice, and a wake-up for each.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use betz_base::Result;
use iceoryx2::identifiers::UniquePublisherId;
use iceoryx2::port::{listener::Listener, notifier::Notifier};
use iceoryx2::port::{publisher::Publisher, subscriber::Subscriber};
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::{event, publish_subscribe};

use crate::service_error;

/// Ports that may go from thread to thread; what is in shared memory is that of `ipc::Service`.
type SharedService = ipc_threadsafe::Service;

/// Messages that wait for a subscriber at most.
const ROOM: usize = 64;

/// Header before a step's values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ZeroCopySend)]
#[type_name("betz.StepHeader")]
#[repr(C)]
pub struct StepHeader {
    /// Number of the step, one more with each.
    pub sequence: u64,
    /// The rig's time, in ns of a clock that is its own affair; comes back with the movement.
    pub sent: i64,
    /// Status of the estimates (`StepStatus`'s bits); 0 in counts.
    pub status: u32,
    /// 0.
    pub reserved: u32,
}

struct Service<T: Debug + ZeroCopySend + 'static> {
    messages: publish_subscribe::PortFactory<SharedService, [T], StepHeader>,
    came: event::PortFactory<SharedService>,
    /// Lives as long as its ports.
    _node: Node<SharedService>,
}

impl<T: Debug + ZeroCopySend + 'static> Service<T> {
    fn open(name: &str) -> Result<Self> {
        let node = NodeBuilder::new()
            // Ctrl-C is the program's affair.
            .signal_handling_mode(SignalHandlingMode::Disabled)
            .create::<SharedService>()
            .map_err(|e| service_error("starting a node of iceoryx2 for", name, e))?;
        let named = |name: &str| {
            ServiceName::new(name)
                .map_err(|e| service_error("expected a service's name, got", name, e))
        };
        let messages = (node.service_builder(&named(name)?))
            .publish_subscribe::<[T]>()
            .user_header::<StepHeader>()
            .subscriber_max_buffer_size(ROOM)
            // Two would mix their numbers.
            .max_publishers(1)
            .open_or_create()
            .map_err(|e| service_error("opening the service", name, e))?;
        let came = (node.service_builder(&named(&format!("{name}/came"))?))
            .event()
            .open_or_create()
            .map_err(|e| service_error("opening the event of", name, e))?;
        Ok(Self {
            messages,
            came,
            _node: node,
        })
    }
}

/// The end of a service that writes.
pub struct Sender<T: Debug + ZeroCopySend + 'static> {
    publisher: Publisher<SharedService, [T], StepHeader>,
    notifier: Notifier<SharedService>,
    _service: Service<T>,
}

impl<T: Debug + ZeroCopySend + Copy + 'static> Sender<T> {
    /// The service `name`, for messages of at most `length` values.
    ///
    /// # Errors
    /// `Io` where iceoryx2 has no such service for us: one of other types, say, or with writers enough.
    pub fn open(name: &str, length: usize) -> Result<Self> {
        let service = Service::open(name)?;
        let publisher = (service.messages.publisher_builder())
            .initial_max_slice_len(length)
            .create()
            .map_err(|e| service_error("writing to", name, e))?;
        let notifier = (service.came.notifier_builder().create())
            .map_err(|e| service_error("waking the readers of", name, e))?;
        Ok(Self {
            publisher,
            notifier,
            _service: service,
        })
    }

    /// Sends a step, and wakes who waits for it.
    ///
    /// # Errors
    /// `Io` where there is no room, for more values than `open` was told, say.
    pub fn send(&self, header: StepHeader, values: &[T]) -> Result<()> {
        let send = |e| service_error("sending", "a step", e);
        let mut sample = (self.publisher.loan_slice_uninit(values.len()))
            .map_err(|e| service_error("room for", "a step", e))?;
        *sample.user_header_mut() = header;
        let sample = sample.write_from_fn(|k| values[k]);
        sample.send().map_err(send)?;
        // A reader whose event cannot be told looks again when its wait is over.
        let _ = self.notifier.notify();
        Ok(())
    }
}

/// The end of a service that reads.
pub struct Receiver<T: Debug + ZeroCopySend + 'static> {
    subscriber: Subscriber<SharedService, [T], StepHeader>,
    listener: Listener<SharedService>,
    spin: Duration,
    /// Sender of the last message.
    sender: Option<UniquePublisherId>,
    name: String,
    _service: Service<T>,
}

impl<T: Debug + ZeroCopySend + 'static> Receiver<T> {
    /// The service `name`; before it sleeps it asks for `spin` again and again.
    ///
    /// # Errors
    /// `Io` where iceoryx2 has no such service for us.
    pub fn open(name: &str, spin: Duration) -> Result<Self> {
        let service = Service::open(name)?;
        let subscriber = (service.messages.subscriber_builder())
            .buffer_size(ROOM)
            .create()
            .map_err(|e| service_error("reading from", name, e))?;
        let listener = (service.came.listener_builder().create())
            .map_err(|e| service_error("listening to", name, e))?;
        Ok(Self {
            subscriber,
            listener,
            spin,
            sender: None,
            name: name.to_owned(),
            _service: service,
        })
    }

    /// Gives the next message, where it lies, to `take`, and whether its sender is another than the last one's; none
    /// where nothing came within `patience`.
    ///
    /// # Errors
    /// `Io` where the connection or the wait breaks.
    pub fn take<R>(
        &mut self,
        patience: Duration,
        take: impl FnOnce(&StepHeader, &[T], bool) -> R,
    ) -> Result<Option<R>> {
        let began = Instant::now();
        loop {
            let sample = (self.subscriber.receive())
                .map_err(|e| service_error("reading from", &self.name, e))?;
            if let Some(sample) = sample {
                let sender = Some(sample.header().publisher_id());
                let other = self.sender.is_some() && self.sender != sender;
                self.sender = sender;
                return Ok(Some(take(sample.user_header(), sample.payload(), other)));
            }
            let waited = began.elapsed();
            if waited >= patience {
                return Ok(None);
            } else if waited < self.spin {
                std::hint::spin_loop();
            } else {
                // Events of messages that were read already wake it for nothing, once.
                (self.listener.timed_wait(|_| {}, patience - waited))
                    .map_err(|e| service_error("waiting for", &self.name, e))?;
            }
        }
    }
}
