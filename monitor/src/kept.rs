//! Networks that outlive a run of the page: a store keeps them, pages name and delete them.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use betz_base::error::{Error, Result};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::{App, AppState, json_of};
use crate::explore::network::{NamedNetwork, NetworkView};
use crate::live_network::LiveShared;
use betz_base::lock::lock;

/// Largest number of networks of the store that stay in memory after pages looked at them.
const MOST_LOADED: usize = 4;
/// Longest name in characters.
const LONGEST_NAME: usize = 120;

/// Number and name of a network in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptName {
    /// Its number in the store, which no other network gets.
    pub id: i64,
    /// Its name.
    pub name: String,
}

/// A place that keeps networks from one run of a page to the next. Several servers may share one.
pub trait NetworkStore: Send {
    /// The networks in it, in the order in which they were kept.
    ///
    /// # Errors
    /// The store cannot be read.
    fn list(&mut self) -> Result<Vec<KeptName>>;

    /// The network of a number.
    ///
    /// # Errors
    /// It is not there (any more), or cannot be read.
    fn load(&mut self, id: i64) -> Result<NamedNetwork>;

    /// Keeps a network; returns its number.
    ///
    /// # Errors
    /// It cannot be written.
    fn keep(&mut self, network: &NamedNetwork) -> Result<i64>;

    /// Gives a network another name.
    ///
    /// # Errors
    /// It is not there (any more), or cannot be written.
    fn rename(&mut self, id: i64, name: &str) -> Result<()>;

    /// Deletes a network; nothing happens if it is not there.
    ///
    /// # Errors
    /// The store cannot be written.
    fn delete(&mut self, id: i64) -> Result<()>;
}

/// A network that pages may look at. Its place in the list is its number for pages.
pub(crate) struct NetworkSlot {
    pub(crate) name: String,
    /// `None` until it is read from the store, after others of the store were looked at, and after it was deleted.
    pub(crate) view: Option<Arc<NetworkView>>,
    /// Windows that grow; there is no `view` then.
    pub(crate) live: Option<Arc<LiveShared>>,
    /// Its number in the store.
    pub(crate) kept: Option<i64>,
    /// True if it was read from the store: this server had it from nowhere else.
    from_store: bool,
    /// Number of the last look at it, among all looks.
    looked: u64,
    /// True after it was deleted: no other network takes its place.
    pub(crate) deleted: bool,
}

impl NetworkSlot {
    pub(crate) fn new(view: NetworkView) -> Self {
        Self {
            name: view.name().to_owned(),
            view: Some(Arc::new(view)),
            live: None,
            kept: None,
            from_store: false,
            looked: 0,
            deleted: false,
        }
    }

    /// A network that grows.
    pub(crate) fn of_live(name: &str, live: Arc<LiveShared>) -> Self {
        Self {
            name: name.to_owned(),
            view: None,
            live: Some(live),
            kept: None,
            from_store: false,
            looked: 0,
            deleted: false,
        }
    }

    /// True if it takes one of the places for networks in memory. Those of the store do not: they are read again.
    pub(crate) fn takes_place(&self) -> bool {
        self.view.is_some() && !self.from_store
    }

    /// The store no longer has it: one that this server had before stays in the list.
    fn release(&mut self) {
        self.kept = None;
        if self.from_store {
            self.delete();
        }
    }

    fn delete(&mut self) {
        (self.view, self.live, self.kept, self.deleted) = (None, None, None, true);
    }
}

/// Brings the list up to date with the store, which other servers may have changed.
pub(crate) fn update(app: &AppState) -> Result<()> {
    let Some(store) = app.store.get() else {
        return Ok(());
    };
    let mut store = lock(store);
    let stored = store.list()?;
    let mut slots = lock(&app.networks);
    for slot in slots.iter_mut() {
        let Some(id) = slot.kept else { continue };
        match stored.iter().find(|kept| kept.id == id) {
            Some(kept) => slot.name.clone_from(&kept.name),
            None => slot.release(),
        }
    }
    for kept in stored {
        if slots.iter().all(|slot| slot.kept != Some(kept.id)) {
            slots.push(NetworkSlot {
                name: kept.name,
                view: None,
                live: None,
                kept: Some(kept.id),
                from_store: true,
                looked: 0,
                deleted: false,
            });
        }
    }
    Ok(())
}

/// Name and network of a number; read from the store if it was not yet. `None` if there is none. Of a network that
/// grows, the view of this version or, if it is gone, the newest.
pub(crate) fn find(
    app: &AppState,
    id: usize,
    version: Option<u64>,
) -> Result<Option<(String, Arc<NetworkView>)>> {
    if let Some((name, live)) = live(app, id) {
        return Ok(live.view(&name, version)?.map(|(_, view)| (name, view)));
    }
    let look = || {
        let mut slots = lock(&app.networks);
        let look = next_look(&slots);
        let slot = slots.get_mut(id).filter(|slot| !slot.deleted)?;
        slot.looked = look;
        Some((slot.name.clone(), slot.view.clone(), slot.kept))
    };
    // While the store is locked, nobody else reads the same network.
    let (name, kept) = match look() {
        None => return Ok(None),
        Some((name, Some(view), _)) => return Ok(Some((name, view))),
        Some((name, None, kept)) => (name, kept),
    };
    let (Some(store), Some(kept)) = (app.store.get(), kept) else {
        return Ok(None);
    };
    let loaded = lock(store).load(kept)?;
    let view = Arc::new(NetworkView::new(loaded)?);
    let mut slots = lock(&app.networks);
    if let Some(slot) = slots.get_mut(id)
        && !slot.deleted
    {
        slot.view = Some(view.clone());
    }
    drop_oldest(&mut slots);
    drop(slots);
    Ok(Some((name, view)))
}

/// Name and windows of a network that grows, if the number is that of one.
pub(crate) fn live(app: &AppState, id: usize) -> Option<(String, Arc<LiveShared>)> {
    let slots = lock(&app.networks);
    let slot = slots.get(id).filter(|slot| !slot.deleted)?;
    Some((slot.name.clone(), slot.live.clone()?))
}

/// The number of the next look.
fn next_look(slots: &[NetworkSlot]) -> u64 {
    slots.iter().map(|slot| slot.looked).max().unwrap_or(0) + 1
}

/// Takes networks of the store out of memory, until [`MOST_LOADED`] are left: first those that nobody looked at for
/// longest. Answers that are being made of one keep it.
fn drop_oldest(slots: &mut [NetworkSlot]) {
    let mut loaded: Vec<&mut NetworkSlot> = (slots.iter_mut())
        .filter(|slot| slot.from_store && slot.view.is_some())
        .collect();
    loaded.sort_by_key(|slot| std::cmp::Reverse(slot.looked));
    for slot in loaded.into_iter().skip(MOST_LOADED) {
        slot.view = None;
    }
}

/// The networks as pages list them.
pub(crate) fn listed(app: &AppState) -> Value {
    let slots = lock(&app.networks);
    let named = (slots.iter().enumerate()).filter(|(_, slot)| !slot.deleted);
    let named = named.map(|(id, slot)| {
        json!({
            "id": id, "name": slot.name, "kept": slot.kept.is_some(), "live": slot.live.is_some(),
        })
    });
    json!(named.collect::<Vec<_>>())
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Change {
    id: Option<usize>,
    name: Option<String>,
}

/// Keeps, names or deletes a network, or deletes all that are kept.
pub(crate) async fn change(
    State(app): State<App>,
    Path(what): Path<String>,
    body: Bytes,
) -> Response {
    if !app.may_control || app.store.get().is_none() {
        let words = "expected a server with --sessions and --control, got one without";
        return (StatusCode::FORBIDDEN, words).into_response();
    }
    let asked: Change = match serde_json::from_slice(&body) {
        Ok(asked) => asked,
        Err(e) => return (StatusCode::BAD_REQUEST, format!("expected JSON: {e}")).into_response(),
    };
    // A disk may take its time, while other pages get their answers.
    let done = tokio::task::spawn_blocking(move || {
        update(&app)?;
        change_now(&app, &what, asked)?;
        // A network that grows is kept as it is now, and listed as another one.
        update(&app)?;
        Ok::<_, Error>(json!({"networks": listed(&app)}))
    });
    match done.await {
        Ok(Ok(list)) => json_of(&list),
        Ok(Err(e)) => (StatusCode::CONFLICT, e.message().to_owned()).into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, e.to_string()).into_response(),
    }
}

fn change_now(app: &AppState, what: &str, asked: Change) -> Result<()> {
    let Some(store) = app.store.get() else {
        return Ok(());
    };
    let name = asked.name.map(|name| name.trim().to_owned());
    if let Some(name) = &name
        && (name.is_empty() || name.chars().count() > LONGEST_NAME)
    {
        return Err(Error::argument(format!(
            "name: expected 1 to {LONGEST_NAME} characters, got {}",
            name.chars().count()
        )));
    }
    let mut store = lock(store);
    if what == "reset" {
        for kept in store.list()? {
            store.delete(kept.id)?;
        }
        let mut slots = lock(&app.networks);
        let kept = slots.iter_mut().filter(|slot| slot.kept.is_some());
        kept.for_each(NetworkSlot::release);
        return Ok(());
    }
    let id = asked.id.unwrap_or(usize::MAX);
    let found = {
        let slots = lock(&app.networks);
        let slot = slots.get(id).filter(|slot| !slot.deleted);
        slot.map(|slot| {
            (
                slot.name.clone(),
                slot.view.clone(),
                slot.kept,
                slot.live.clone(),
            )
        })
    };
    let (named, view, kept, live) = found.ok_or_else(|| {
        Error::argument("id: expected a network of the list, got another or a deleted one")
    })?;
    let name = name.unwrap_or(named);
    if let ("keep", Some(live)) = (what, &live) {
        let view = live.view(&name, None)?;
        let view = view.filter(|(_, view)| view.windows() > 0);
        let (_, view) = view.ok_or_else(|| {
            Error::argument(
                "keep: expected a window, got a network whose first one has not come yet",
            )
        })?;
        store.keep(&view.given(&name))?;
        return Ok(());
    }
    if what == "delete" && live.is_some() {
        return Err(Error::argument(
            "delete: expected a kept network, got the one that is being computed",
        ));
    }
    let kept = match (what, kept, view) {
        ("keep", None, Some(view)) => Some(store.keep(&view.given(&name))?),
        ("keep" | "name", Some(kept), _) => {
            store.rename(kept, &name)?;
            Some(kept)
        }
        ("name", None, _) => None,
        ("delete", kept, _) => {
            if let Some(kept) = kept {
                store.delete(kept)?;
            }
            if let Some(slot) = lock(&app.networks).get_mut(id) {
                slot.delete();
            }
            return Ok(());
        }
        _ => {
            return Err(Error::argument(format!(
                "expected keep, name, delete or reset, got {what:?}"
            )));
        }
    };
    if let Some(slot) = lock(&app.networks).get_mut(id) {
        (slot.name, slot.kept) = (name, kept);
    }
    Ok(())
}
