//! Waits for a socket where the system's own are too coarse: a wait of Windows ends half a second late, and what arrives just then
//! may be lost. There the socket is asked again and again, and the thread sleeps between.

use std::io::{ErrorKind, Read, Result};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// True if a socket's own waits are too coarse here.
pub(crate) const ASKS_AGAIN: bool = cfg!(windows);

/// Time between two questions. Sleeps of Windows are as short as this since version 1803.
const GLANCE: Duration = Duration::from_micros(500);

/// Asks until there is an answer, once at least; `None` if there is none within `patience`.
///
/// # Errors
/// The errors of `ask`.
pub(crate) fn again<T, E>(
    patience: Duration,
    mut ask: impl FnMut() -> std::result::Result<Option<T>, E>,
) -> std::result::Result<Option<T>, E> {
    let started = Instant::now();
    loop {
        if let Some(found) = ask()? {
            return Ok(Some(found));
        }
        let left = patience.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        std::thread::sleep(left.min(GLANCE));
    }
}

/// Reads what came, or comes within `patience`: the number of bytes, 0 at the end of the stream; `None` if none came. Writes wait
/// as before.
///
/// # Errors
/// The errors of the stream.
pub(crate) fn read_within(
    mut stream: &TcpStream,
    bytes: &mut [u8],
    patience: Duration,
) -> Result<Option<usize>> {
    stream.set_nonblocking(true)?;
    let read = again(patience, || match stream.read(bytes) {
        Ok(read) => Ok(Some(read)),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(e) => Err(e),
    });
    stream.set_nonblocking(false)?;
    read
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn asks_until_something_is_found_or_patience_ends() {
        let mut asked = 0;
        let found: std::result::Result<_, ()> = again(Duration::from_secs(60), || {
            asked += 1;
            Ok((asked == 4).then_some(asked))
        });
        assert_eq!(found, Ok(Some(4)));
        let mut asked = 0;
        let found: std::result::Result<Option<()>, ()> = again(Duration::ZERO, || {
            asked += 1;
            Ok(None)
        });
        assert_eq!((found, asked), (Ok(None), 1));
        assert_eq!(again(Duration::ZERO, || Err::<Option<()>, _>(7)), Err(7));
    }

    #[test]
    fn a_stream_is_read_as_far_as_it_came_and_waits_again_after() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let mut bytes = [0; 8];
        let none = read_within(&near, &mut bytes, Duration::from_millis(1)).unwrap();
        assert_eq!(none, None);
        far.write_all(b"abc").unwrap();
        let some = read_within(&near, &mut bytes, Duration::from_secs(60)).unwrap();
        assert_eq!((some, &bytes[..3]), (Some(3), &b"abc"[..]));
        // Blocking again: it waits for the other side.
        let writer = std::thread::spawn(move || {
            far.write_all(b"defg").unwrap();
        });
        near.read_exact(&mut bytes[..4]).unwrap();
        writer.join().unwrap();
        let end = read_within(&near, &mut bytes, Duration::from_secs(60)).unwrap();
        assert_eq!((end, &bytes[..4]), (Some(0), &b"defg"[..]));
    }
}
