//! Probes for CUDA without failing.

/// One CUDA device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaDevice {
    /// Number in the driver's order, as in `cuda:N`.
    pub number: usize,
    /// Name, such as `NVIDIA H200`.
    pub name: String,
    /// Compute capability, such as (9, 0).
    pub compute_capability: (u32, u32),
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Number of multiprocessors.
    pub multiprocessors: u32,
}

/// Result of [`probe`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The driver's CUDA version, such as (13, 0); `None` without a driver.
    pub driver: Option<(u32, u32)>,
    /// Each library Betz uses: its name, and why it cannot be loaded if it cannot.
    pub libraries: Vec<(&'static str, Option<String>)>,
    /// The devices that can be used.
    pub devices: Vec<CudaDevice>,
    /// Reason why there are none.
    pub reason: Option<String>,
}

/// Looks for a driver, libraries and devices. Never panics, opens no context, keeps no memory.
pub fn probe() -> Probe {
    super::cuda::probe()
}
