//! Everything a page may do to a session if control is allowed: swap, roll back, release, mask, mark, name a mark. A page
//! can also ask what a mask would cost before it is set.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use betz_base::error::{Error, Result};
use betz_runtime::model::Decoder;
use betz_runtime::stream::{PreparedModel, Swapper};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::expected;
use crate::hub::lock;
use crate::source::ModelCard;

/// Hands over a session's [`Swapper`] and the models that may be swapped in.
pub struct Control {
    held: Mutex<SwapTargets>,
    cards: Vec<ModelCard>,
    /// What a mask would cost is being worked out.
    judging: AtomicBool,
    /// Marks set so far; the next one gets this number.
    marks: AtomicU64,
}

struct SwapTargets {
    swapper: Swapper,
    models: Vec<Arc<Decoder>>,
}

/// The one place for working out what a mask would cost; free again when it is dropped.
pub(crate) struct JudgingGuard<'a>(&'a AtomicBool);

impl Drop for JudgingGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// What a page asks for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ControlRequest {
    /// The number of the model to swap in.
    #[serde(default)]
    model: Option<usize>,
    /// Ticks of warm-up; absent: as many as the model remembers.
    #[serde(default)]
    warm_up_steps: Option<u64>,
    /// Channels that are to take no part.
    #[serde(default)]
    pub(crate) channels: Option<Vec<usize>>,
    /// Words of a mark.
    #[serde(default)]
    text: Option<String>,
    /// Step of a mark: the page's newest one when its key was pressed. Absent: the session's newest step.
    #[serde(default)]
    tick: Option<i64>,
    /// Number of the mark to name.
    #[serde(default)]
    mark: Option<u64>,
}

/// Longest text of a mark, in characters.
const LONGEST_MARK: usize = 200;

impl Control {
    /// The first of `models` is the one that runs.
    ///
    /// # Errors
    /// `InvalidArgument` where there is none.
    pub fn new(swapper: Swapper, models: Vec<(String, Decoder)>) -> Result<Self> {
        if models.is_empty() {
            return Err(Error::argument(
                "control: expected the model that runs and those that may be swapped in, got none",
            ));
        }
        let cards = models
            .iter()
            .map(|(name, m)| ModelCard::of(name, m))
            .collect();
        let models = models.into_iter().map(|(_, m)| Arc::new(m)).collect();
        Ok(Self {
            held: Mutex::new(SwapTargets { swapper, models }),
            cards,
            judging: AtomicBool::new(false),
            marks: AtomicU64::new(0),
        })
    }

    pub(crate) fn json(&self) -> Value {
        let cards: Vec<&Value> = self.cards.iter().map(ModelCard::json).collect();
        let progress = lock(&self.held).swapper.progress();
        json!({
            "models": cards,
            "running": format!("{:016x}", progress.running),
            "state": format!("{:?}", progress.state),
            "ticks_left": progress.ticks_left,
            "ticks": progress.ticks,
        })
    }

    /// What is told of the model with this fingerprint; `None` where it is none of those that may be swapped in.
    pub(crate) fn card(&self, fingerprint: u64) -> Option<&ModelCard> {
        self.cards.iter().find(|c| c.fingerprint == fingerprint)
    }

    /// The place for working out what a mask would cost; `None` while somebody has it.
    pub(crate) fn judge(&self) -> Option<JudgingGuard<'_>> {
        (!self.judging.swap(true, Ordering::Acquire)).then_some(JudgingGuard(&self.judging))
    }

    /// The model that gives the estimates.
    ///
    /// # Errors
    /// `Mismatch` where it is none of those that this page knows.
    pub(crate) fn running(&self) -> Result<Arc<Decoder>> {
        self.running_of(&lock(&self.held))
    }

    fn running_of(&self, held: &SwapTargets) -> Result<Arc<Decoder>> {
        let running = held.swapper.progress().running;
        let found = self.cards.iter().position(|c| c.fingerprint == running);
        let found = found.map(|i| held.models[i].clone());
        found.ok_or_else(|| {
            Error::mismatch("mask: expected one of the models of this page to run, got another")
        })
    }

    /// Does what is asked; gives the event that tells of it. May take as long as preparing a model does.
    pub(crate) fn act(&self, what: &str, asked: &ControlRequest) -> Result<Value> {
        let mut held = lock(&self.held);
        let held = &mut *held;
        match what {
            "swap" => {
                let (i, model) = (asked.model)
                    .and_then(|i| held.models.get(i).map(|m| (i, m)))
                    .ok_or_else(|| {
                        let all = held.models.len();
                        Error::argument(format!(
                            "swap: expected the number of a model, 0 to {}, got {:?}",
                            all - 1,
                            asked.model
                        ))
                    })?;
                held.swapper.reclaim();
                let options = betz_runtime::stream::SwapOptions {
                    warm_up_steps: asked.warm_up_steps,
                    ..Default::default()
                };
                held.swapper.swap_with(model, &options)?;
                let ticks = held.swapper.progress().ticks;
                Ok(json!({"what": "swap", "model": self.cards[i].name, "warm_up_steps": ticks}))
            }
            "roll-back" => {
                held.swapper.roll_back()?;
                Ok(json!({"what": "roll back"}))
            }
            "release" => {
                held.swapper.release()?;
                Ok(json!({"what": "release"}))
            }
            "mask" => {
                let model = self.running_of(held)?;
                let mask = expected::mask(&model, asked.channels.as_deref().unwrap_or(&[]))?;
                PreparedModel::new(&model, Some(&mask))?;
                // Each once, however often it was named.
                let off: Vec<usize> = (0..mask.len()).filter(|&c| !mask[c]).collect();
                let mask = (!off.is_empty()).then_some(mask);
                held.swapper.set_mask(&model, mask.as_deref())?;
                Ok(json!({"what": "mask", "channels": off}))
            }
            "mark" => {
                let number = self.marks.fetch_add(1, Ordering::Relaxed);
                let mut event = json!({"what": "mark", "mark": number, "text": asked.words()});
                if let Some(tick) = asked.tick {
                    event["at"] = tick.into();
                }
                Ok(event)
            }
            "name-mark" => {
                let set = self.marks.load(Ordering::Relaxed);
                let number = asked.mark.filter(|&m| m < set).ok_or_else(|| {
                    Error::argument(format!(
                        "name-mark: expected the number of one of {set} marks, got {:?}",
                        asked.mark
                    ))
                })?;
                Ok(json!({"what": "name mark", "mark": number, "text": asked.words()}))
            }
            other => Err(Error::argument(format!(
                "expected swap, roll-back, release, mask, mark or name-mark, got {other:?}"
            ))),
        }
    }
}

impl ControlRequest {
    /// The words of a mark, cut to [`LONGEST_MARK`] characters.
    fn words(&self) -> String {
        let text = self.text.as_deref().unwrap_or("");
        text.chars().take(LONGEST_MARK).collect()
    }
}
