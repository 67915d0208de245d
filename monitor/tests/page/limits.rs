//! Limits on viewers: number of watching pages, size of a request, and time for a request's head.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use betz_monitor::{Monitor, Options, Source};
use betz_recording::OutputInfo;

fn monitor(control: bool) -> Monitor {
    let source = Source {
        name: "limits".into(),
        channel_names: vec!["a".into(), "b".into()],
        electrode_um: None,
        outputs: vec![OutputInfo {
            name: "x".into(),
            unit: "mm".into(),
        }],
        step_seconds: 0.001,
        speed: 1.0,
        deadline: None,
        model: None,
    };
    let options = Options {
        control,
        ..Options::default()
    };
    Monitor::start(source, options).unwrap().0
}

fn connect(monitor: &Monitor) -> TcpStream {
    let stream = TcpStream::connect(monitor.address()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream
}

/// Head of an answer: the part before the empty line, or all of it.
fn head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

fn known(monitor: &Monitor) -> String {
    let (host, token) = (monitor.address(), monitor.token().unwrap().as_str());
    let port = host.port();
    format!("Host: {host}\r\nOrigin: http://{host}\r\nCookie: betz-{port}={token}\r\n")
}

fn watch(monitor: &Monitor) -> (TcpStream, String) {
    let mut stream = connect(monitor);
    let request = format!(
        "GET /live HTTP/1.1\r\n{}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: betz.v1\r\n\r\n",
        known(monitor)
    );
    stream.write_all(request.as_bytes()).unwrap();
    let answer = head(&mut stream);
    (stream, answer)
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn thirty_two_pages_watch_and_the_next_when_one_has_gone() {
    let monitor = monitor(false);
    let mut watching: Vec<TcpStream> = (0..32)
        .map(|n| {
            let (stream, answer) = watch(&monitor);
            assert!(answer.starts_with("HTTP/1.1 101"), "page {n}: {answer}");
            stream
        })
        .collect();
    assert_eq!(monitor.viewers(), 32);
    let (_refused, answer) = watch(&monitor);
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    drop(watching.pop());
    until("a page that is gone gives its place back", || {
        monitor.viewers() == 31
    });
    let (_stream, answer) = watch(&monitor);
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
}

/// Sends a request of `length` bytes, or as many of them as the server accepts.
fn ask(monitor: &Monitor, length: usize) -> String {
    let mut stream = connect(monitor);
    let request = format!(
        "POST /api/control/mark HTTP/1.1\r\n{}Connection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n",
        known(monitor)
    );
    stream.write_all(request.as_bytes()).unwrap();
    // The server may close the connection before all bytes are sent.
    let _ = stream.write_all(&vec![b' '; length]);
    head(&mut stream)
}

#[test]
fn a_question_has_sixty_four_kilobytes_and_no_more() {
    let monitor = monitor(true);
    // Spaces are not JSON, but the server has read them.
    let answer = ask(&monitor, 64 << 10);
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    let answer = ask(&monitor, (64 << 10) + 1);
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[test]
fn a_head_has_eight_kilobytes_and_no_more() {
    let monitor = monitor(false);
    let asked = |bytes: usize| {
        let mut stream = connect(&monitor);
        let more = "x".repeat(bytes);
        let request = format!("GET / HTTP/1.1\r\n{}More: {more}\r\n\r\n", known(&monitor));
        let _ = stream.write_all(request.as_bytes());
        head(&mut stream)
    };
    assert!(asked(7 << 10).starts_with("HTTP/1.1 200"));
    let refused = asked(9 << 10);
    assert!(!refused.starts_with("HTTP/1.1 200"), "{refused}");
}

#[test]
fn a_request_that_does_not_come_to_its_end_is_hung_up_on_and_others_are_answered_meanwhile() {
    let monitor = monitor(false);
    let mut slow = connect(&monitor);
    slow.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
    let mut other = connect(&monitor);
    let request = format!("GET / HTTP/1.1\r\n{}\r\n", known(&monitor));
    other.write_all(request.as_bytes()).unwrap();
    assert!(head(&mut other).starts_with("HTTP/1.1 200"));
    // The server closes the connection; this end waits at most six times as long.
    let mut rest = Vec::new();
    let read = slow.read_to_end(&mut rest);
    assert!(read.is_ok(), "{read:?} after {rest:?}");
}
