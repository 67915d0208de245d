//! Options of a page's server, and the checks on them.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use betz_base::error::{Error, Result};

use crate::guard::Token;
use crate::source::Source;

/// Options of a page's server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address to listen on; loopback by default. On any other address, everybody with the token can watch, and
    /// everybody on the network path can read along, because there is no TLS.
    pub address: IpAddr,
    /// Port; 0 chooses a free one.
    pub port: u16,
    /// `None`: draw a new token. Loopback needs one too, because other users of the machine can reach it.
    pub token: Option<Token>,
    /// Allow everybody who reaches the page to watch, without a token. Only on loopback.
    pub no_token: bool,
    /// Further host names that the server accepts, without the port.
    pub allow_hosts: Vec<String>,
    /// Allow pages to swap, roll back, mask and mark: see [`Monitor::control`](crate::Monitor::control).
    pub control: bool,
    /// Allow other pages of this machine, such as a notebook, to show this page in a frame: see
    /// [`Monitor::embedded_url`](crate::Monitor::embedded_url). Only without `control`, and on loopback.
    pub embed: bool,
    /// Size of the ring between session and hub, in words of 4 bytes: 8 per step, one per output, spike and class of a gate.
    pub ring_words: usize,
    /// State of a page that is opened without one in its address: a JSON object, saved by another page with `state` of
    /// its *take along*.
    pub state: Option<serde_json::Value>,
    /// Read the page's files from this folder in place of the built-in ones.
    pub page_folder: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            token: None,
            no_token: false,
            allow_hosts: Vec::new(),
            control: false,
            embed: false,
            ring_words: 1 << 20,
            state: None,
            page_folder: None,
        }
    }
}

/// Refuses a source that cannot be shown, and options that do not fit each other.
pub(crate) fn check(source: &Source, options: &Options) -> Result<()> {
    if !(source.step_seconds.is_finite() && source.step_seconds > 0.0) {
        return Err(Error::argument(format!(
            "a page: expected steps of some seconds, got {}",
            source.step_seconds
        )));
    }
    if source.channel_names.is_empty() {
        return Err(Error::argument(
            "a page: expected a session with channels, got none",
        ));
    }
    check_token(options)
}

/// Refuses a page that more people could reach than its options allow.
pub(crate) fn check_token(options: &Options) -> Result<()> {
    if options.no_token && !options.address.is_loopback() {
        return Err(Error::argument(format!(
            "a page without a token: expected a loopback address, got {}",
            options.address
        )));
    }
    // Another page could lead a user's clicks on a frame.
    if options.embed && options.control {
        return Err(Error::argument(
            "a page in a frame: expected one that only shows, got one with control",
        ));
    }
    if options.embed && (options.no_token || !options.address.is_loopback()) {
        return Err(Error::argument(format!(
            "a page in a frame: expected a token and a loopback address, got {}{}",
            options.address,
            if options.no_token {
                " without a token"
            } else {
                ""
            }
        )));
    }
    Ok(())
}
