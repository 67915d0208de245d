//! Commands that a page may give to a session if control is allowed: swap, roll back, release, mask, mark, name a mark.
//! A page can also ask for the expected cost of a mask before it sets the mask.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use betz_base::error::{Error, Result};
use betz_runtime::model::Decoder;
use betz_runtime::stream::{PreparedModel, Swapper};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::expected;
use crate::source::ModelCard;
use betz_base::lock::lock;

/// Access to a session's [`Swapper`] and to the models that may be swapped in.
pub struct Control {
    held: Mutex<SwapTargets>,
    cards: Vec<ModelCard>,
    /// True while the cost of a mask is being computed.
    judging: AtomicBool,
    /// Number of marks set so far, which is the number of the next mark.
    marks: AtomicU64,
}

struct SwapTargets {
    swapper: Swapper,
    models: Vec<Arc<Decoder>>,
}

/// Permission to compute the cost of a mask, held by one request at a time and released on drop.
pub(crate) struct JudgingGuard<'a>(&'a AtomicBool);

impl Drop for JudgingGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Body of a control request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ControlRequest {
    /// Number of the model to swap in.
    #[serde(default)]
    model: Option<usize>,
    /// Ticks of warm-up; if absent, the length of the model's memory.
    #[serde(default)]
    warm_up_steps: Option<u64>,
    /// Channels to mask.
    #[serde(default)]
    pub(crate) channels: Option<Vec<usize>>,
    /// Text of a mark.
    #[serde(default)]
    text: Option<String>,
    /// Step of a mark: the newest step on the page when the key was pressed. If absent, the session's newest step.
    #[serde(default)]
    tick: Option<i64>,
    /// Number of the mark to name.
    #[serde(default)]
    mark: Option<u64>,
}

/// Longest text of a mark, in characters.
const LONGEST_MARK: usize = 200;

impl Control {
    /// Creates a control for `models`; the first of them is the running model.
    ///
    /// # Errors
    /// `InvalidArgument` if `models` is empty.
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

    /// Fingerprint of the decoder that gives the estimates, whatever the mask.
    pub(crate) fn running_fingerprint(&self) -> u64 {
        lock(&self.held).swapper.progress().running
    }

    /// Description of the model with this fingerprint; `None` if it is not among the models that may be swapped in.
    pub(crate) fn card(&self, fingerprint: u64) -> Option<&ModelCard> {
        self.cards.iter().find(|c| c.fingerprint == fingerprint)
    }

    /// Reserves the computation of a mask's cost; `None` if another request holds it.
    pub(crate) fn judge(&self) -> Option<JudgingGuard<'_>> {
        (!self.judging.swap(true, Ordering::Acquire)).then_some(JudgingGuard(&self.judging))
    }

    /// Returns the model that gives the estimates.
    ///
    /// # Errors
    /// `Mismatch` if the running model is not one that this page knows.
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

    /// Carries out a request and returns the event that reports it. A swap takes as long as preparing a model.
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
                // List each masked channel once, even if the request repeats it.
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
    /// Text of a mark, cut to [`LONGEST_MARK`] characters.
    fn words(&self) -> String {
        let text = self.text.as_deref().unwrap_or("");
        text.chars().take(LONGEST_MARK).collect()
    }
}
