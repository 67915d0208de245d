//! Networks in an SQLite database, for the page: each as the bytes of its file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use betz::network::file::{NetworkFile, Positions};
use betz::{Error, ErrorKind, Result};
use betz_monitor::{KeptName, NamedNetwork, NetworkStore};
use rusqlite::{Connection, OptionalExtension, params};

/// Marks a database as one of these (`PRAGMA application_id`): "betz".
const APPLICATION: i32 = 0x6265_747a;
/// Version of the tables (`PRAGMA user_version`).
const VERSION: i32 = 1;
/// Time that a change waits while another process writes.
const BUSY: Duration = Duration::from_secs(5);

/// A database of networks. Several processes may have it open.
pub(crate) struct NetworkDatabase {
    connection: Connection,
    path: PathBuf,
}

/// A network of the page from a file.
pub(crate) fn named(name: String, file: NetworkFile) -> NamedNetwork {
    NamedNetwork {
        name,
        names: file.names,
        positions: file.positions.map(|p| (p.values, p.axes)),
        window_seconds: file.window_seconds,
        complete: file.complete,
        network: file.network,
    }
}

impl NetworkDatabase {
    /// Opens the database at `path`, or makes it.
    ///
    /// # Errors
    /// It cannot be opened, or is of another program or of a later version.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = |e: rusqlite::Error| failure(path, &e);
        let mut connection = Connection::open(path).map_err(failed)?;
        connection.busy_timeout(BUSY).map_err(failed)?;
        // One that is only read may be on a medium that cannot be written.
        let number =
            |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
        if number("application_id").map_err(failed)? == APPLICATION
            && number("user_version").map_err(failed)? == VERSION
        {
            return Ok(Self {
                connection,
                path: path.to_owned(),
            });
        }
        // Two processes may make it at the same time.
        let transaction = connection
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
            .map_err(failed)?;
        let number = |pragma: &str| -> Result<i32> {
            transaction
                .query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0))
                .map_err(failed)
        };
        let tables: i64 = transaction
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(failed)?;
        let (application, version) = (number("application_id")?, number("user_version")?);
        if tables == 0 {
            transaction
                .execute_batch(&format!(
                    "CREATE TABLE network (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL,
                        kept TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP, file BLOB NOT NULL);
                     PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};"
                ))
                .map_err(failed)?;
        } else if application != APPLICATION || version != VERSION {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "{}: expected a database of betz, version {VERSION}, got application {application}, version {version}; choose another name",
                    path.display()
                ),
            ));
        }
        transaction.commit().map_err(failed)?;
        Ok(Self {
            connection,
            path: path.to_owned(),
        })
    }

    fn failed(&self, error: &rusqlite::Error) -> Error {
        failure(&self.path, error)
    }

    fn gone(&self, id: i64) -> Error {
        Error::argument(format!(
            "{}: expected network {id}, which was kept, got none: it was deleted",
            self.path.display()
        ))
    }
}

fn failure(path: &Path, error: &rusqlite::Error) -> Error {
    Error::new(ErrorKind::Io, format!("{}: {error}", path.display()))
}

/// A file in a folder of its own that others cannot read, beside the system's other temporary files. Both are gone when
/// this is dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Result<Self> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        #[cfg_attr(not(unix), allow(unused_mut))]
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("betz-network-{}-{number}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            match builder.create(&folder) {
                Ok(()) => return Ok(Self(folder.join("network.npz"))),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(Error::io("create", &folder, &e)),
            }
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Nothing else is in the folder.
        if let Some(folder) = self.0.parent() {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

impl NetworkStore for NetworkDatabase {
    fn list(&mut self) -> Result<Vec<KeptName>> {
        let read = || -> rusqlite::Result<Vec<KeptName>> {
            let mut query =
                (self.connection).prepare("SELECT id, name FROM network ORDER BY id")?;
            let rows = query.query_map([], |row| {
                Ok(KeptName {
                    id: row.get(0)?,
                    name: row.get(1)?,
                })
            })?;
            rows.collect()
        };
        read().map_err(|e| self.failed(&e))
    }

    fn load(&mut self, id: i64) -> Result<NamedNetwork> {
        let found: Option<(String, Vec<u8>)> = self
            .connection
            .query_row(
                "SELECT name, file FROM network WHERE id = ?1",
                [id],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()
            .map_err(|e| self.failed(&e))?;
        let (name, bytes) = found.ok_or_else(|| self.gone(id))?;
        let file = Temporary::new()?;
        std::fs::write(&file.0, bytes).map_err(|e| Error::io("write", &file.0, &e))?;
        Ok(named(name, NetworkFile::read(&file.0)?))
    }

    fn keep(&mut self, network: &NamedNetwork) -> Result<i64> {
        let file = Temporary::new()?;
        let written = NetworkFile {
            names: network.names.clone(),
            positions: (network.positions.clone()).map(|(values, axes)| Positions { values, axes }),
            window_seconds: network.window_seconds.clone(),
            complete: network.complete,
            ..NetworkFile::new(network.network.clone())
        };
        written.write(&file.0)?;
        let bytes = std::fs::read(&file.0).map_err(|e| Error::io("read", &file.0, &e))?;
        self.connection
            .execute(
                "INSERT INTO network (name, file) VALUES (?1, ?2)",
                params![network.name, bytes],
            )
            .map_err(|e| self.failed(&e))?;
        Ok(self.connection.last_insert_rowid())
    }

    fn rename(&mut self, id: i64, name: &str) -> Result<()> {
        let changed = self.connection.execute(
            "UPDATE network SET name = ?2 WHERE id = ?1",
            params![id, name],
        );
        match changed.map_err(|e| self.failed(&e))? {
            0 => Err(self.gone(id)),
            _ => Ok(()),
        }
    }

    fn delete(&mut self, id: i64) -> Result<()> {
        (self.connection)
            .execute("DELETE FROM network WHERE id = ?1", [id])
            .map(|_| ())
            .map_err(|e| self.failed(&e))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use betz::network::{NetworkSpec, Plan, Signal, Threshold, Window};
    use betz_monitor::{Contents, Monitor, Options};
    use serde_json::Value;

    use super::*;

    fn network(name: &str) -> NamedNetwork {
        let samples: Vec<f32> = (0..1200_u32).map(|t| (t * t % 83) as f32).collect();
        let signal = Signal::new(&samples, 4).unwrap();
        let window = Window::new(50, 25);
        let spec = NetworkSpec::pearson(window).threshold(Threshold::Absolute(0.1));
        let network = Plan::new(&spec, &signal).unwrap();
        let mut file = NetworkFile::new(network.run(&signal, &()).unwrap());
        file.names = Some(["a", "b", "c", "d"].map(str::to_owned).to_vec());
        named(name.to_owned(), file)
    }

    #[test]
    fn networks_come_back_after_the_database_was_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.db");
        let given = network("first");
        assert!(given.network.edges() > 0);
        let mut database = NetworkDatabase::open(&path).unwrap();
        let first = database.keep(&given).unwrap();
        let second = database.keep(&network("second")).unwrap();
        database.rename(first, "the first").unwrap();
        drop(database);
        let mut database = NetworkDatabase::open(&path).unwrap();
        let mut other = NetworkDatabase::open(&path).unwrap();
        let names = |database: &mut NetworkDatabase| -> Vec<String> {
            (database.list().unwrap().into_iter())
                .map(|kept| kept.name)
                .collect()
        };
        assert_eq!(names(&mut database), ["the first", "second"]);
        let back = database.load(first).unwrap();
        assert_eq!(
            (&back.name[..], &back.network, &back.names),
            ("the first", &given.network, &given.names)
        );
        // Another process sees a change at once, and a number is of one network for ever.
        other.delete(second).unwrap();
        assert_eq!(names(&mut database), ["the first"]);
        assert!(database.load(second).is_err() && database.rename(second, "x").is_err());
        assert!(database.keep(&given).unwrap() > second);
    }

    #[test]
    fn opening_does_not_wait_for_a_process_that_writes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.db");
        NetworkDatabase::open(&path)
            .unwrap()
            .keep(&network("first"))
            .unwrap();
        let mut writer = Connection::open(&path).unwrap();
        let behavior = rusqlite::TransactionBehavior::Immediate;
        let transaction = writer.transaction_with_behavior(behavior).unwrap();
        let mut database = NetworkDatabase::open(&path).unwrap();
        assert_eq!(database.list().unwrap().len(), 1);
        transaction.rollback().unwrap();
    }

    #[test]
    fn other_files_are_refused_and_stay_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.db");
        std::fs::write(
            &path,
            "these are notes and no database, of more than one page".repeat(99),
        )
        .unwrap();
        let before = std::fs::read(&path).unwrap();
        let error = NetworkDatabase::open(&path).err().unwrap();
        assert!(error.message().contains("other.db"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
        let path = folder.path().join("strange.db");
        let strange = Connection::open(&path).unwrap();
        strange.execute_batch("CREATE TABLE mine (x)").unwrap();
        drop(strange);
        let error = NetworkDatabase::open(&path).err().unwrap();
        assert!(error.message().contains("database of betz"), "{error}");
        assert!(NetworkDatabase::open(&folder.path().join("no/such.db")).is_err());
    }

    /// A page with one network, and a database.
    struct Page(Monitor);

    impl Page {
        fn open(database: &Path, control: bool) -> Self {
            let contents = Contents {
                networks: vec![network("given")],
                ..Contents::default()
            };
            let options = Options {
                no_token: true,
                control,
                ..Options::default()
            };
            let monitor = Monitor::open(contents, options).unwrap();
            let database = NetworkDatabase::open(database).unwrap();
            monitor.keep_networks(Box::new(database)).unwrap();
            Self(monitor)
        }

        /// Status and body of the answer to a request.
        fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
            let address = self.0.address();
            let mut stream = TcpStream::connect(address).unwrap();
            write!(
                stream,
                "{method} {path} HTTP/1.1\r\nhost: {address}\r\norigin: http://{address}\r\nconnection: close\r\n\
                 content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            let answer = String::from_utf8_lossy(&answer).into_owned();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            let status = head.split(' ').nth(1).unwrap().parse().unwrap();
            (status, body.to_owned())
        }

        fn change(&self, what: &str, body: &str) -> (u16, String) {
            self.ask("POST", &format!("/api/sessions/{what}"), body)
        }

        /// Number, name and whether it is kept, of every network in the list.
        fn list(&self) -> Vec<(u64, String, bool)> {
            let (status, body) = self.ask("GET", "/api/networks", "");
            assert_eq!(status, 200, "{body}");
            let list: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(
                (&list["keeps"], &list["failure"]),
                (&true.into(), &Value::Null)
            );
            let one = |n: &Value| {
                let name = n["name"].as_str().unwrap().to_owned();
                (
                    n["id"].as_u64().unwrap(),
                    name,
                    n["kept"].as_bool().unwrap(),
                )
            };
            list["networks"]
                .as_array()
                .unwrap()
                .iter()
                .map(one)
                .collect()
        }
    }

    fn entry(id: u64, name: &str, kept: bool) -> (u64, String, bool) {
        (id, name.to_owned(), kept)
    }

    #[test]
    fn pages_keep_name_and_delete_networks_that_the_next_server_shows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.db");
        let one = Page::open(&path, true);
        assert_eq!(one.list(), [entry(0, "given", false)]);
        let (status, body) = one.change("keep", r#"{"id": 0, "name": " tomorrow "}"#);
        assert_eq!(status, 200, "{body}");
        assert_eq!(one.list(), [entry(0, "tomorrow", true)]);
        // Another server has it beside its own, and sees what the first changes.
        let two = Page::open(&path, true);
        assert_eq!(
            two.list(),
            [entry(0, "given", false), entry(1, "tomorrow", true)]
        );
        let (status, body) = two.ask("GET", "/api/network/1", "");
        let about: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &about["name"]), (200, &"tomorrow".into()));
        let given: Value = serde_json::from_str(&two.ask("GET", "/api/network/0", "").1).unwrap();
        assert_eq!(about["edges"], given["edges"]);
        assert_eq!(one.change("name", r#"{"id": 0, "name": "friday"}"#).0, 200);
        assert_eq!(two.list()[1], entry(1, "friday", true));
        // Two pages of one server ask at once; one of them keeps the network, the other names it.
        std::thread::scope(|s| {
            for name in ["left", "right"] {
                let two = &two;
                s.spawn(move || two.change("keep", &format!(r#"{{"id": 0, "name": "{name}"}}"#)));
            }
        });
        assert_eq!(two.list().len(), 2);
        assert_eq!(one.list().len(), 2);
        assert_eq!(two.change("delete", r#"{"id": 1}"#).0, 200);
        assert_eq!(two.list().len(), 1);
        // The first server had this network before it was kept.
        assert_eq!(one.list()[0], entry(0, "friday", false));
        drop(one);
        assert_eq!(two.ask("GET", "/api/network/1", "").0, 404);
        // A network that was given stays; one from the database goes.
        assert_eq!(two.change("reset", "{}").0, 200);
        assert!(matches!(&two.list()[..], [(0, _, false)]));
        assert_eq!(two.change("keep", r#"{"id": 0}"#).0, 200);
        drop(two);
        let three = Page::open(&path, true);
        assert_eq!(three.list().len(), 2);
        assert_eq!(three.change("reset", "{}").0, 200);
        assert_eq!(three.list(), [entry(0, "given", false)]);
        drop(three);
        assert_eq!(Page::open(&path, true).list(), [entry(0, "given", false)]);
    }

    #[test]
    fn changes_that_make_no_sense_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.db");
        let page = Page::open(&path, true);
        for (what, body, status, words) in [
            ("keep", r#"{"id": 7}"#, 409, "network of the list"),
            (
                "keep",
                r#"{"id": 0, "name": "  "}"#,
                409,
                "1 to 120 characters",
            ),
            ("burn", r#"{"id": 0}"#, 409, "keep, name, delete or reset"),
            ("keep", "id=0", 400, "JSON"),
        ] {
            let (found, said) = page.change(what, body);
            assert!(
                found == status && said.contains(words),
                "{what}: {found} {said}"
            );
        }
        assert_eq!(page.list(), [entry(0, "given", false)]);
        // A page that only looks changes nothing.
        let looks = Page::open(&path, false);
        assert_eq!(looks.change("keep", r#"{"id": 0}"#).0, 403);
        assert_eq!(looks.list(), [entry(0, "given", false)]);
    }
}
