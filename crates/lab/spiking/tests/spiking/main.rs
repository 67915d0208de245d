//! The engine against oracles and published counts, and the networks that are refused.

#![allow(clippy::unwrap_used, clippy::panic)]

mod cases;
mod conductances;
mod equality;
mod lists;
mod neuron_models;
mod plasticity;
mod published;
mod ranks;
mod refusals;
mod tuning;
