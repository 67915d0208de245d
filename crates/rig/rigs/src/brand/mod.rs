//! A node of BRAND (Ali et al. 2024): input from one Redis stream, output to another, as the graph says.
//!
//! One client reads the stream (`Entries`). Its entries are a model's steps ([`BrandSource`]) or voltage (`BrandRig`);
//! outputs go to [`BrandSink`]. Labels, marks and trials come from any stream of Redis (`notes`).
//!
//! A node is told its nickname and where Redis is; the newest entry of `supergraph_stream` has its parameters
//! `input_stream` and `output_stream`. It says in `NICKNAME_state` how it is: NODE_STARTED, NODE_READY, NODE_SHUTDOWN.
//! Of an entry it reads `samples` (one number a channel, raw), `ts` (8 bytes, handed on as `ts_in`) and `sync` (JSON,
//! of which `nsp_idx`); it writes `ts`, `ts_in`, `sync`, `status` and `samples` (float64). A Redis that goes away is
//! waited for.

#[cfg(feature = "emulate")]
pub(crate) mod emulate;
mod entries;
#[cfg(feature = "rig")]
pub(crate) mod notes;
mod resp;
mod steps;
#[cfg(all(test, feature = "emulate"))]
mod tests;
#[cfg(feature = "rig")]
mod voltage;

use std::time::Duration;

use betz_base::{Error, ErrorKind, Result};

use self::entries::Entries;
use self::resp::{Connection, Reply};
pub use self::steps::{BrandSink, BrandSource, Samples};
#[cfg(feature = "rig")]
pub use self::voltage::BrandRig;

/// Between two attempts to reach a Redis that is gone.
const RETRY: Duration = Duration::from_millis(100);

/// Where Redis is, and what the node is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    redis: String,
    nickname: String,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "brand://{}?nickname={}", self.redis, self.nickname)
    }
}

impl Place {
    /// `redis`: HOST:PORT or a socket's path.
    ///
    /// # Errors
    /// `InvalidArgument` without a nickname.
    pub fn new(redis: &str, nickname: Option<&str>) -> Result<Self> {
        let nickname = nickname.ok_or_else(|| {
            Error::argument(format!(
                "brand://{redis}: expected ?nickname=NAME, as the graph calls the node, got none"
            ))
        })?;
        Ok(Self {
            redis: redis.into(),
            nickname: nickname.into(),
        })
    }

    fn connect(&self) -> Result<Connection> {
        Connection::open(&self.redis)
            .map_err(|e| Error::new(ErrorKind::Io, format!("Redis at {}: {e}", self.redis)))
    }

    fn io(&self, error: &std::io::Error) -> Error {
        Error::new(ErrorKind::Io, format!("Redis at {}: {error}", self.redis))
    }

    fn say(&self, connection: &mut Connection, code: &str, status: &str) -> std::io::Result<()> {
        let state = format!("{}_state", self.nickname);
        let parts = ["XADD", &state, "*", "code", code, "status", status];
        connection.ask(&parts.map(str::as_bytes)).map(|_| ())
    }

    /// The parameter `name` of this node in the newest graph.
    fn parameter(&self, connection: &mut Connection, name: &str) -> Result<String> {
        let newest = ["XREVRANGE", "supergraph_stream", "+", "-", "COUNT", "1"];
        let reply = connection
            .ask(&newest.map(str::as_bytes))
            .map_err(|e| self.io(&e))?;
        let refused = |got: String| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "supergraph_stream: expected a node {} with the parameter {name}, got {got}",
                    self.nickname
                ),
            )
        };
        if let Reply::Error(error) = &reply {
            return Err(refused(error.clone()));
        }
        let entry = reply
            .list()
            .first()
            .ok_or_else(|| refused("no graph".into()))?;
        let data = entry.list().get(1).and_then(|fields| fields.get("data"));
        let data = data.ok_or_else(|| refused("an entry without data".into()))?;
        let graph: serde_json::Value =
            serde_json::from_slice(data.bytes()).map_err(|e| refused(format!("no JSON: {e}")))?;
        let nodes = graph["nodes"]
            .as_object()
            .ok_or_else(|| refused("no nodes".into()))?;
        let node = nodes
            .values()
            .find(|n| n["nickname"] == self.nickname.as_str());
        let node = node.ok_or_else(|| {
            let names: Vec<_> = nodes
                .values()
                .filter_map(|n| n["nickname"].as_str())
                .collect();
            refused(format!("nodes {}", names.join(", ")))
        })?;
        let value = node["parameters"][name].as_str();
        value
            .map(str::to_owned)
            .ok_or_else(|| refused("none of that name".into()))
    }
}
