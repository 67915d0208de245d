//! Rules of a plan's sources.

use betz_base::Result;
use betz_rigs::rig::MOST_LINES;
use betz_runtime::model::Decoder;

use super::{Feature, Gives, Plan, Sends};

impl Plan {
    /// Channels of all sources but the first that are decoded.
    pub(crate) fn other_channels(&self) -> usize {
        let others = self.source.iter().skip(1);
        let decoded = others.filter(|source| source.gives == Gives::Input);
        decoded.filter_map(|source| source.channels).sum()
    }

    /// Channels of `model` that are the first source's.
    pub(crate) fn first_channels(&self, model: &Decoder) -> usize {
        model.channels().saturating_sub(self.other_channels())
    }

    /// Refuses sources that contradict themselves or each other.
    pub(super) fn check_sources(&self) -> Result<()> {
        let Some(first) = self.source.first() else {
            return Err(self.refuse("source", "", "expected [[source]], got none"));
        };
        if first.gives != Gives::Input {
            let message = format_args!(
                "expected \"input\" of the first source, whose clock makes the steps, got \"{}\"",
                first.gives.name()
            );
            return Err(self.refuse_source(0, "gives", message));
        }
        for (number, source) in self.source.iter().enumerate() {
            for (key, value) in [
                ("channels", source.channels.map(|n| n as f64)),
                ("rate", source.rate),
                ("microvolts", source.microvolts),
            ] {
                if let Some(value) = value
                    && !(value > 0.0 && value.is_finite())
                {
                    let message = format_args!("expected a number above 0, got {value}");
                    return Err(self.refuse_source(number, key, message));
                }
            }
            if source.form() == Sends::Samples && source.sends_steps_alone() {
                return Err(self.refuse_source(
                    number,
                    "sends",
                    format_args!("expected \"steps\" for {}, got \"samples\"", source.from),
                ));
            }
            if self.source[..number].iter().any(|s| s.name == source.name) {
                let message =
                    format_args!("expected a name of its own, got {:?} again", source.name);
                return Err(self.refuse_source(number, "name", message));
            }
            if source.inline && self.source.len() > 1 {
                let message = "expected false with several sources, because the loop would wait for one of them; got true";
                return Err(self.refuse_source(number, "inline", message));
            }
            self.check_lines(number)?;
            if number > 0 {
                self.check_other(number)?;
            }
        }
        Ok(())
    }

    /// Refuses lines that the source does not have, or does not tell as its address stands.
    fn check_lines(&self, number: usize) -> Result<()> {
        let source = &self.source[number];
        let refuse =
            |message: std::fmt::Arguments<'_>| Err(self.refuse_source(number, "lines", message));
        for (line, name) in &source.lines {
            if !(line.parse()).is_ok_and(|line: u8| (1..=MOST_LINES).contains(&line)) {
                return refuse(format_args!(
                    "expected lines by their numbers, 1 to {MOST_LINES}, such as {{ 1 = \"trial\" }}, got {line:?}"
                ));
            }
            if name.is_empty() {
                return refuse(format_args!(
                    "expected \"trial\" or the text of a mark for line {line}, got \"\""
                ));
            }
        }
        if source.lines.is_empty() && source.gives != Gives::Lines {
            return Ok(());
        }
        match source.key_of_lines() {
            Err(scheme) => refuse(format_args!(
                "expected none of a source that tells no digital lines ({scheme}); openephys, cerebus and spikeglx do"
            )),
            Ok(Some(key)) if !source.from.contains(&format!("{key}=")) => refuse(format_args!(
                "expected {key}= in the address beside it, so that the lines are heard (docs/connect.md), got {}",
                source.from
            )),
            Ok(_) => Ok(()),
        }
    }

    /// Refuses a shared line of sources that are not there, or that tell no lines.
    pub(super) fn check_align(&self) -> Result<()> {
        let Some(align) = &self.align else {
            return Ok(());
        };
        let line = &align.line;
        for (name, _) in [&line.reference, &line.other] {
            let names: Vec<&str> = self.source.iter().map(|s| s.name.as_str()).collect();
            let Some(source) = self.source.iter().find(|source| source.name == *name) else {
                let message = format_args!(
                    "expected sources of the plan, {}, got {name}",
                    names.join(", ")
                );
                return Err(self.refuse("align", "line", message));
            };
            let hears = match source.key_of_lines() {
                Err(_) => false,
                Ok(key) => key.is_none_or(|key| source.from.contains(&format!("{key}="))),
            };
            if !hears {
                let message = format_args!(
                    "expected sources that tell digital lines (docs/connect.md), got {name}, {}",
                    source.from
                );
                return Err(self.refuse("align", "line", message));
            }
        }
        if align.limit.seconds() <= 0.0 {
            return Err(self.refuse("align", "limit", "expected a time above 0, got 0s"));
        }
        Ok(())
    }

    /// Refuses what only the first source may be.
    fn check_other(&self, number: usize) -> Result<()> {
        let source = &self.source[number];
        if source.channels.is_none() && source.gives != Gives::Lines {
            let message = "expected the number of channels of each source but the first, which the session does not wait for; got none";
            return Err(self.refuse_source(number, "channels", message));
        }
        if matches!(source.from.as_str(), "push" | "simulated") {
            let message = format_args!(
                "expected another address but for the first source, got {:?}",
                source.from
            );
            return Err(self.refuse_source(number, "from", message));
        }
        if self.voltage.feature == Feature::Units && source.gives == Gives::Input {
            let message = "expected crossings or sbp with several sources, because a sorter is of one; got units";
            return Err(self.refuse("voltage", "feature", message));
        }
        Ok(())
    }
}
