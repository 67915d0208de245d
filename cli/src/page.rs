//! Serving and announcing the page.

use clap::Args;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use betz::stream::Session;
use betz::{Progress, Result};
use betz_monitor::{Monitor, Options, Source, Token};

use crate::browser::Door;
use crate::report::{self, UntilInterrupted};

/// Options of the page's server.
#[derive(Args)]
#[command(next_help_heading = "The page")]
pub(crate) struct Page {
    /// Port to listen on. 0: any free port
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,
    /// Address to listen on. Without TLS, everyone between this machine and a viewer elsewhere can
    /// read along
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) host: IpAddr,
    /// Another host name that the server answers to; repeat for several
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_host: Vec<String>,
    /// Let everyone who reaches the page look at it; on loopback only
    #[arg(long)]
    pub(crate) no_token: bool,
    /// Let the page swap models, roll back, mask channels and set marks
    #[arg(long)]
    pub(crate) control: bool,
    /// Do not open a browser
    #[arg(long)]
    pub(crate) no_open: bool,
    /// The page's files from this folder instead of those built in (for work on the page)
    #[arg(long = "page", value_name = "FOLDER", hide = true)]
    pub(crate) folder: Option<PathBuf>,
    /// Token of an earlier process, whose page goes on.
    #[arg(skip)]
    pub(crate) token: Option<Token>,
}

/// Options of the page of a command that also works without one.
#[derive(Args)]
pub(crate) struct SessionPage {
    /// Serve the page that shows the session, as `betz monitor` does
    #[arg(long = "page")]
    pub(crate) shown: bool,
    /// Port of the page. 0: any free port
    #[arg(long, value_name = "N", default_value_t = 0, requires = "shown")]
    pub(crate) port: u16,
    /// Address that the page listens on. Without TLS, everyone between this machine and a viewer
    /// elsewhere can read along
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1",
        requires = "shown"
    )]
    pub(crate) host: IpAddr,
    /// Do not open a browser
    #[arg(long, requires = "shown")]
    no_open: bool,
}

impl SessionPage {
    /// The options of the page's server.
    pub(crate) fn options(&self) -> Page {
        Page {
            port: self.port,
            host: self.host,
            allow_host: Vec::new(),
            no_token: false,
            control: false,
            no_open: self.no_open,
            folder: None,
            token: None,
        }
    }
}

impl Page {
    /// Serves the page of a session, and attaches its tap. The page ends with what is returned.
    pub(crate) fn open(
        &self,
        source: Source,
        session: &mut Session,
        json: bool,
    ) -> Result<(Monitor, Option<Door>)> {
        let (monitor, feed) = Monitor::start(source, options(self))?;
        monitor.watch(session.health());
        session.attach(Box::new(feed), 0)?;
        let door = announce(&monitor, self, json)?;
        Ok((monitor, door))
    }
}

/// Steps shorter than this are taken several at a time: a thread cannot sleep for less.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);
/// Time between checks for Ctrl-C while nothing happens.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// The server's options from the command line.
pub(crate) fn options(page: &Page) -> Options {
    Options {
        address: page.host,
        port: page.port,
        no_token: page.no_token,
        token: page.token.clone(),
        allow_hosts: page.allow_host.clone(),
        control: page.control,
        page_folder: page.folder.clone(),
        ..Options::default()
    }
}

/// Says where the page is, and opens it.
pub(crate) fn announce(monitor: &Monitor, page: &Page, json: bool) -> Result<Option<Door>> {
    if !page.host.is_loopback() {
        eprintln!(
            "the page is served on {} without TLS: others on the network can read it, including the token",
            monitor.address()
        );
    }
    if json {
        report::json(&serde_json::json!({"url": monitor.url()}))?;
    } else {
        report::line(monitor.url())?;
    }
    Ok(if page.no_open {
        None
    } else {
        Door::open(monitor.url())
    })
}

/// Sleeps where it is worth it; `false` when Ctrl-C was pressed.
pub(crate) fn rest(mut wait: Duration) -> bool {
    while wait >= SHORTEST_SLEEP {
        if UntilInterrupted.cancelled() {
            return false;
        }
        let part = wait.min(LOOK);
        std::thread::sleep(part);
        wait = wait.saturating_sub(part);
    }
    !UntilInterrupted.cancelled()
}
