//! Models that are given to a session at work, so that a replay gives them at the same step.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use betz_base::{Error, Result};
use betz_runtime::model::Decoder;
use betz_runtime::stream::{PreparedModel, SwapOptions, Swapper};

use crate::pipeline::Pipeline;

/// Folder of the models of a recording that were swapped in.
const MODELS: &str = "models";

/// A model that is ready to be given to a session. Preparing it takes time and writes its file; giving it does not.
#[derive(Debug)]
pub struct PreparedSwap {
    model: Arc<PreparedModel>,
    /// True if its file is in the folder of the session's recording.
    is_stored: bool,
}

impl PreparedSwap {
    /// Prepares `model`. With the folder of a recording it is stored there, so that a replay finds it.
    ///
    /// # Errors
    /// The errors of [`PreparedModel::new`] and [`Decoder::save`].
    pub fn new(model: &Decoder, recording: Option<&Path>) -> Result<Self> {
        let prepared = Arc::new(PreparedModel::new(model, None)?);
        if let Some(folder) = recording {
            let path = path(folder, prepared.decoder_fingerprint());
            if !path.exists() {
                let models = folder.join(MODELS);
                std::fs::create_dir_all(&models).map_err(|e| Error::io("creating", &models, &e))?;
                model.save(&path)?;
            }
        }
        Ok(Self {
            model: prepared,
            is_stored: recording.is_some(),
        })
    }

    /// Fingerprint of the model.
    pub fn fingerprint(&self) -> u64 {
        self.model.decoder_fingerprint()
    }

    /// True if its file is in the folder of a recording.
    pub(crate) fn is_stored(&self) -> bool {
        self.is_stored
    }
}

fn path(folder: &Path, fingerprint: u64) -> PathBuf {
    folder.join(MODELS).join(format!("{fingerprint:016x}.betz"))
}

/// The model that a recording has stored.
///
/// # Errors
/// The errors of [`Decoder::load`]; `InvalidRecording` if the file holds another model.
fn stored_model(folder: &Path, fingerprint: u64) -> Result<Decoder> {
    let path = path(folder, fingerprint);
    let model = Decoder::load(&path)?;
    let own = PreparedSwap::new(&model, None)?.fingerprint();
    match own == fingerprint {
        true => Ok(model),
        false => Err(Error::recording(format!(
            "{}: expected the model {fingerprint:016x} that the session was given, got {own:016x}",
            path.display(),
        ))),
    }
}

/// The model of a fingerprint: `start`, with which the session of the recording in `folder` began, or one that was swapped in.
///
/// # Errors
/// The errors of [`stored_model`].
pub(crate) fn model_of(start: &Decoder, folder: &Path, fingerprint: u64) -> Result<Decoder> {
    match PreparedSwap::new(start, None)?.fingerprint() == fingerprint {
        true => Ok(start.clone()),
        false => stored_model(folder, fingerprint),
    }
}

/// Gives models to the session of a pipeline.
#[derive(Default)]
pub(crate) struct Swaps {
    swapper: Option<Swapper>,
    /// Fingerprint of the newest model that was given, unless it was taken back.
    newest: Option<u64>,
}

impl Swaps {
    fn swapper(&mut self, pipeline: &mut Pipeline) -> Result<&mut Swapper> {
        match &mut self.swapper {
            Some(swapper) => Ok(swapper),
            place => Ok(place.insert(pipeline.session_mut().swapper()?)),
        }
    }

    /// Gives a model: it takes over once it has heard as much as it remembers.
    ///
    /// # Errors
    /// The errors of [`Swapper::swap_prepared_with`].
    pub(crate) fn swap(&mut self, pipeline: &mut Pipeline, swap: &PreparedSwap) -> Result<()> {
        let swapper = self.swapper(pipeline)?;
        swapper.swap_prepared_with(Arc::clone(&swap.model), &SwapOptions::default())?;
        // At once rather than with the next step, so that several requests between two steps keep their order.
        pipeline.session_mut().take_requests();
        self.newest = Some(swap.fingerprint());
        Ok(())
    }

    /// Fingerprint of the newest model that was given, unless it was taken back.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// Returns to the model before.
    ///
    /// # Errors
    /// The errors of [`Swapper::roll_back`].
    pub(crate) fn roll_back(&mut self, pipeline: &mut Pipeline) -> Result<()> {
        self.swapper(pipeline)?.roll_back()?;
        self.newest = None;
        pipeline.session_mut().take_requests();
        Ok(())
    }

    /// Gives the model that a recording has stored.
    ///
    /// # Errors
    /// The errors of [`Swaps::swap`] and [`stored_model`].
    pub(crate) fn swap_recorded(
        &mut self,
        pipeline: &mut Pipeline,
        folder: &Path,
        fingerprint: u64,
    ) -> Result<()> {
        let swap = PreparedSwap::new(&stored_model(folder, fingerprint)?, None)?;
        self.swap(pipeline, &swap)
    }
}
