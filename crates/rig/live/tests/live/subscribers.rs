//! Subscribers of a session's outputs that come, go away and come back.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use betz_live::{Live, Pace, Part, Until};

use super::rigs::{self, ALWAYS, ListRig};

const COMMAND: u8 = 4;

/// A SUB socket of ZeroMQ.
struct Subscriber(TcpStream);

impl Subscriber {
    /// Connects to `place` and subscribes to nothing yet. It is known to the publisher afterwards.
    fn connect(place: &str) -> Self {
        let mut stream = TcpStream::connect(place).unwrap();
        let mut greeting = [0; 64];
        (greeting[0], greeting[9], greeting[10]) = (0xFF, 0x7F, 3);
        greeting[12..16].copy_from_slice(b"NULL");
        stream.write_all(&greeting).unwrap();
        stream.read_exact(&mut greeting).unwrap();
        let mut subscriber = Self(stream);
        subscriber.send(COMMAND, b"\x05READY\x0bSocket-Type\0\0\0\x03SUB");
        subscriber.wait();
        subscriber
    }

    fn send(&mut self, flags: u8, body: &[u8]) {
        self.0.write_all(&[flags, body.len() as u8]).unwrap();
        self.0.write_all(body).unwrap();
    }

    /// Flags and body of the next frame.
    fn receive(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).unwrap();
        let mut body = vec![0; usize::from(head[1])];
        self.0.read_exact(&mut body).unwrap();
        (head[0], body)
    }

    /// Waits until the publisher has read all that was sent.
    fn wait(&mut self) {
        self.send(COMMAND, b"\x04PING\0\0read");
        while self.receive() != (COMMAND, b"\x04PONGread".to_vec()) {}
    }

    fn subscribe(&mut self) {
        self.send(0, &[1]);
        self.wait();
    }

    /// Number of the next step.
    fn step(&mut self) -> u64 {
        assert_eq!(self.receive(), (1, b"betz".to_vec()));
        let (_, datagram) = self.receive();
        u64::from_le_bytes(datagram[8..16].try_into().unwrap())
    }
}

#[test]
fn steps_that_nobody_subscribed_to_are_unsent_until_a_subscriber_is_back() {
    let small = rigs::small(0.0);
    let place = {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().to_string()
    };
    let to = format!("outputs.to=[\"zmq://{place}\"]");
    let rig = ListRig {
        signal: small.simulation.signal(),
        blocks: rigs::blocks(&mut small.simulation.rig(Part::Run, Pace::Fastest), 1000).into_iter(),
    };
    let plan = rigs::plan(&[&to, "missing.stale_after=1h"]);
    let mut live = Live::with_rig(plan, small.model.clone(), Box::new(rig)).unwrap();
    live.set_noise(small.noise.clone());
    let mut run_ten = || {
        let until = Until {
            steps: Some(10),
            ..ALWAYS
        };
        live.run(&until, &mut |_| Ok(())).unwrap();
    };
    run_ten();
    let mut first = Subscriber::connect(&place);
    first.subscribe();
    run_ten();
    assert!((10..20).all(|number| first.step() == number));
    drop(first);

    // The publisher reads from its peers in turn: it knows that the first one is gone.
    let mut second = Subscriber::connect(&place);
    run_ten();
    second.subscribe();
    run_ten();
    assert!((30..40).all(|number| second.step() == number));
    while live.report().unsent < 20 {
        std::thread::yield_now();
    }
    assert_eq!(live.report().unsent, 20);
    assert_eq!(live.report().input.steps, 40);
}
