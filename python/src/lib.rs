//! `betz._core`: the library over NumPy arrays. The Python side (`betz/`) adds scikit-learn's estimator and what
//! reads other packages' objects.
//!
//! Two-dimensional arrays are (time, channels) or (time, outputs). Arrays are read where they lie, in any order and
//! stride; long work runs without the interpreter's lock, on a thread of its own, so that Ctrl-C and progress reach
//! it ([`work`]).
#![cfg(feature = "wheel")]

mod arguments;
mod arrays;
mod chance;
mod classes;
mod clusterless;
mod dataset;
mod error;
mod keywords;
mod live;
mod look;
mod mine;
mod mined_files;
mod miner;
mod model;
mod multiply;
mod network;
mod options;
mod parts;
mod recording;
mod session;
mod shards;
mod show;
mod simulate;
mod som;
mod sort;
mod spiking;
mod sums;
mod train;
mod unlike;
mod weighted;
mod work;

use pyo3::prelude::*;

/// The compiled part of betz; import `betz` instead.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", betz::VERSION)?;
    error::register(module)?;
    module.add_function(wrap_pyfunction!(work::forked, module)?)?;
    module.add_class::<recording::Recording>()?;
    module.add_class::<dataset::Dataset>()?;
    module.add_class::<model::Model>()?;
    module.add_class::<session::Session>()?;
    module.add_class::<unlike::Unlike>()?;
    module.add_class::<live::Live>()?;
    module.add_class::<live::LiveStep>()?;
    module.add_class::<live::LiveSteps>()?;
    module.add_class::<sums::Sums>()?;
    module.add_class::<show::PageServer>()?;
    module.add_class::<spiking::SpikingEngine>()?;
    module.add_function(wrap_pyfunction!(spiking::neuron_models, module)?)?;
    module.add_function(wrap_pyfunction!(train::train, module)?)?;
    module.add_function(wrap_pyfunction!(train::presets, module)?)?;
    module.add_function(wrap_pyfunction!(classes::labels, module)?)?;
    module.add_function(wrap_pyfunction!(classes::train_classes, module)?)?;
    module.add_function(wrap_pyfunction!(classes::class_events, module)?)?;
    module.add_function(wrap_pyfunction!(unlike::recalibrate_model, module)?)?;
    module.add_class::<clusterless::ClusterlessModel>()?;
    module.add_class::<clusterless::ClusterlessSession>()?;
    module.add_function(wrap_pyfunction!(clusterless::spike_features, module)?)?;
    module.add_function(wrap_pyfunction!(clusterless::train_clusterless, module)?)?;
    module.add_class::<mine::Episode>()?;
    module.add_class::<mine::Mined>()?;
    module.add_class::<miner::Miner>()?;
    module.add_function(wrap_pyfunction!(mine::mine, module)?)?;
    module.add_function(wrap_pyfunction!(multiply::multiply, module)?)?;
    module.add_class::<som::SomMap>()?;
    module.add_function(wrap_pyfunction!(som::train_map, module)?)?;
    module.add_class::<network::Network>()?;
    module.add_function(wrap_pyfunction!(network::network, module)?)?;
    module.add_class::<parts::NetworkPart>()?;
    module.add_class::<shards::CountPart>()?;
    module.add_function(wrap_pyfunction!(shards::count, module)?)?;
    module.add_function(wrap_pyfunction!(shards::join, module)?)?;
    module.add_submodule(&simulate::module(module.py())?)?;
    module.add_submodule(&look::module(module.py())?)?;
    module.add_submodule(&sort::module(module.py())?)?;
    Ok(())
}
