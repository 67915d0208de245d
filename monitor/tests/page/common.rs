//! A session with a page, and requests to it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use betz_monitor::{Monitor, Options, Source};
use betz_runtime::model::{Decoder, DecoderParts};
use betz_runtime::psc::{Filter, FilterBank};
use betz_runtime::stream::{Session, SessionConfig};

pub(crate) fn decoder(tau_seconds: f64) -> Decoder {
    let bank = FilterBank::new(vec![Filter {
        tau_seconds,
        order: 0,
    }])
    .unwrap();
    let names = (0..4).map(|c| format!("ch{c}")).collect();
    let parts = DecoderParts {
        weights: vec![1.0, -1.0, 0.5, 0.0],
        ..DecoderParts::linear(0.001, bank, names, vec!["x".into()])
    };
    Decoder::new(parts).unwrap()
}

pub(crate) fn start(options: Options) -> (Monitor, Session) {
    let model = decoder(0.05);
    let mut session = Session::open(&model, SessionConfig::default()).unwrap();
    let (monitor, feed) = Monitor::start(Source::of("a test", &model), options).unwrap();
    monitor.watch(session.health());
    session.attach(Box::new(feed), 0).unwrap();
    (monitor, session)
}

/// Sends `request` to `monitor` as a browser would; returns the whole answer.
pub(crate) fn ask(monitor: &Monitor, request: &str) -> String {
    let mut stream = TcpStream::connect(monitor.address()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let request = request.replace("HOST", &monitor.address().to_string());
    let request = request.replace("PORT", &monitor.address().port().to_string());
    let request = request.replace("TOKEN", monitor.token().map_or("", |t| t.as_str()));
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

pub(crate) fn get(monitor: &Monitor, path: &str, more: &str) -> String {
    ask(
        monitor,
        &format!("GET {path} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n{more}\r\n"),
    )
}

/// Body of an answer; `None` if its status is not 200.
pub(crate) fn bytes(monitor: &Monitor, path: &str) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(monitor.address()).unwrap();
    let (host, token) = (monitor.address(), monitor.token().unwrap().as_str());
    let port = host.port();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nCookie: betz-{port}={token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let body = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    (answer.starts_with(b"HTTP/1.1 200")).then(|| answer.split_off(body))
}

pub(crate) const KNOWN: &str = "Cookie: betz-PORT=TOKEN\r\n";

pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A minimal WebSocket client: the handshake, and the server's messages, which are not masked.
pub(crate) struct Socket(TcpStream);

impl Socket {
    pub(crate) fn open(monitor: &Monitor) -> Self {
        let mut stream = TcpStream::connect(monitor.address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let host = monitor.address();
        let (port, token) = (host.port(), monitor.token().unwrap().as_str());
        let request = format!(
            "GET /live HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nCookie: betz-{port}={token}\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: betz.v1\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(
            head.starts_with(b"HTTP/1.1 101"),
            "{}",
            String::from_utf8_lossy(&head)
        );
        Self(stream)
    }

    pub(crate) fn message(&mut self) -> Vec<u8> {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).unwrap();
        assert_eq!(head[0], 0x82, "binary, whole");
        let len = match head[1] {
            126 => {
                let mut len = [0; 2];
                self.0.read_exact(&mut len).unwrap();
                u64::from(u16::from_be_bytes(len))
            }
            127 => {
                let mut len = [0; 8];
                self.0.read_exact(&mut len).unwrap();
                u64::from_be_bytes(len)
            }
            short => u64::from(short),
        };
        let mut message = vec![0; usize::try_from(len).unwrap()];
        self.0.read_exact(&mut message).unwrap();
        message
    }

    pub(crate) fn drawn(&mut self, messages: u32) {
        let mut frame = vec![0x82, 0x84, 0, 0, 0, 0]; // a mask of zeros
        frame.extend(messages.to_le_bytes());
        self.0.write_all(&frame).unwrap();
    }
}
