//! The lines of `betz multiply`.

use betz::Result;

use super::ProductReport;
use crate::report::{self, Outcome, Table};

impl Outcome for ProductReport {
    fn print(&self) -> Result<()> {
        let half = if self.symmetric {
            ", one half computed"
        } else {
            ""
        };
        report::line(&format!(
            "{}: {} × {} of {} terms each, {}, on {}{half}; {:.2} s, {:.1} GFLOP/s",
            self.out,
            self.rows,
            self.columns,
            self.terms,
            self.dtype,
            self.device,
            self.seconds,
            self.gflops,
        ))?;
        let plan = &self.plan;
        let mut table = Table::new(&[
            "plan",
            "m_max",
            "n_max",
            "k_max",
            "blocks moved",
            "GB moved",
        ]);
        table.row([
            "this".to_owned(),
            plan.m_max.to_string(),
            plan.n_max.to_string(),
            plan.k_max.to_string(),
            plan.transfers.to_string(),
            format!("{:.3}", plan.bytes_moved as f64 / 1e9),
        ]);
        if let Some(paper) = &plan.paper {
            table.row([
                "paper's".to_owned(),
                paper.m_max.to_string(),
                self.columns.to_string(),
                paper.k_max.to_string(),
                paper.transfers.to_string(),
                "–".to_owned(),
            ]);
        }
        table.print()
    }
}
