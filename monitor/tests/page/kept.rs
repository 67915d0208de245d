//! Networks of a store that pages look at: a bounded number stays in memory.

use std::sync::{Arc, Mutex};

use betz_base::error::{Error, Result};
use betz_monitor::{KeptName, NamedNetwork, NetworkStore};
use betz_network::Measure;

use crate::looking::{json, network, networked};
use crate::windows::{events, open, original};

/// Networks in a store, more than a server has places for.
const STORED: usize = 70;

/// A store in memory, and the numbers of the networks that were read.
struct Shelf {
    network: NamedNetwork,
    read: Arc<Mutex<Vec<i64>>>,
}

fn refused() -> Error {
    Error::argument("expected a look, got a change")
}

impl NetworkStore for Shelf {
    fn list(&mut self) -> Result<Vec<KeptName>> {
        let name = |id: i64| KeptName {
            id,
            name: format!("stored {id}"),
        };
        Ok((0..STORED as i64).map(name).collect())
    }

    fn load(&mut self, id: i64) -> Result<NamedNetwork> {
        self.read.lock().unwrap().push(id);
        Ok(self.network.clone())
    }

    fn keep(&mut self, _: &NamedNetwork) -> Result<i64> {
        Err(refused())
    }

    fn rename(&mut self, _: i64, _: &str) -> Result<()> {
        Err(refused())
    }

    fn delete(&mut self, _: i64) -> Result<()> {
        Err(refused())
    }
}

#[test]
fn networks_of_a_store_leave_memory_and_take_no_place_of_computed_ones() {
    let monitor = open(&original(), 0.001, false);
    let read = Arc::new(Mutex::new(Vec::new()));
    let shelf = Shelf {
        network: networked(network(Measure::Pearson, 0.3)),
        read: Arc::clone(&read),
    };
    monitor.keep_networks(Box::new(shelf)).unwrap();
    for id in 0..STORED {
        let about = json(&monitor, &format!("/api/network/{id}"));
        assert_eq!(about["name"], format!("stored {id}"));
    }
    assert_eq!(read.lock().unwrap().len(), STORED);
    // The last four are still there; others are read again.
    for id in [66, 69, 66, 65, 66, 67] {
        json(&monitor, &format!("/api/network/{id}"));
    }
    assert_eq!(read.lock().unwrap()[STORED..], [65, 67]);
    let asked = "/api/compute?source=0&window=2&step=1&bin=0.05&min=0.1";
    let last = events(&monitor, asked).pop().unwrap();
    assert_eq!(last["network"], STORED, "{last}");
}
