//! The printed report of a simulation.

use betz::Result;

use super::SpikingReport;
use crate::report::{self, Outcome, Table, count};

impl Outcome for SpikingReport {
    fn print(&self) -> Result<()> {
        if let Some(recording) = &self.recording {
            recording.print()?;
        }
        if self.spikes_left_out > 0 {
            eprintln!(
                "left out of the recording: {}, beyond --max-spikes",
                count(self.spikes_left_out, "spike")
            );
        }
        if self.interrupted {
            eprintln!("stopped on request: the report covers the steps until then");
        }
        let mut table = Table::new(&["population", "neurons", "Hz"]);
        for rate in &self.rates_hz {
            table.row([
                rate.population.clone(),
                rate.neurons.to_string(),
                format!("{:.3}", rate.hz),
            ]);
        }
        table.print()?;
        report::line(&format!(
            "{}, {}, {}: {}, hash {}",
            count(self.neurons, "neuron"),
            count(self.synapses, "synapse"),
            count(self.steps, "step"),
            count(self.spikes, "spike"),
            self.hash
        ))?;
        if let Some(phases) = &self.phases {
            report::line(&format!(
                "update {:.3} s, exchange {:.3} s, deliver {:.3} s",
                phases.update_seconds, phases.exchange_seconds, phases.deliver_seconds
            ))?;
        }
        report::line(&format!(
            "{:.3} s on {}: {:.4} s per second of the network, {:.2} µs per step; built in {:.2} s, {:.1} MB",
            self.seconds,
            match self.path {
                "threads" if self.ranks > 1 => format!(
                    "{} of {}",
                    count(self.ranks as u64, "rank"),
                    count(self.threads as u64, "thread")
                ),
                "threads" => count(self.threads as u64, "thread"),
                path => format!("{} ({path})", self.device),
            },
            self.rtf,
            self.us_per_step,
            self.build_seconds,
            self.bytes as f64 / 1e6
        ))
    }
}
