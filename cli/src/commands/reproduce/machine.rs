//! The machine, the program and the command that a page names.

use serde::Serialize;

use super::Lab;
use super::study::whole;

/// Facts about a run.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Machine {
    pub(super) processor: String,
    pub(super) threads: usize,
    pub(super) memory: Option<String>,
    /// Name of the CUDA device, or the reason why there is none.
    pub(super) device: String,
    pub(super) version: &'static str,
    /// Commit of the program's source, if the build was told.
    pub(super) commit: Option<&'static str>,
    pub(super) optimised: bool,
    pub(super) command: String,
    /// Mean number of running processes over the last minute, when the run began.
    pub(super) load: Option<f64>,
}

impl Machine {
    pub(super) fn new(lab: &Lab<'_>) -> Self {
        Self {
            processor: processor(),
            threads: rayon::current_num_threads(),
            memory: memory(),
            device: match lab.device() {
                Ok(device) => (device.contexts().first())
                    .map_or_else(|| device.name(), |context| context.info().name.clone()),
                Err(reason) => format!("{reason}{}", lab.missing),
            },
            version: betz::VERSION,
            commit: option_env!("BETZ_COMMIT").filter(|commit| !commit.is_empty()),
            optimised: !cfg!(debug_assertions),
            command: command(std::env::args()),
            load: load(),
        }
    }

    /// Pairs of a name and a value.
    pub(super) fn rows(&self) -> Vec<(&'static str, String)> {
        let build = if self.optimised {
            "optimised"
        } else {
            "not optimised: times are longer than those of a release build"
        };
        let mut rows = vec![
            ("Command", self.command.clone()),
            (
                "Processor",
                format!("{}, {} threads used", self.processor, self.threads),
            ),
            ("CUDA device", self.device.clone()),
            ("Betz", format!("{}, {build}", self.version)),
            (
                "Commit",
                self.commit.unwrap_or("not known to this build").to_owned(),
            ),
        ];
        if let Some(memory) = &self.memory {
            rows.insert(2, ("Memory", memory.clone()));
        }
        if let Some(load) = self.load {
            rows.push(("Load at the beginning", format!("{load:.1}")));
        }
        rows
    }
}

/// The command line with the program's name alone.
fn command(mut words: impl Iterator<Item = String>) -> String {
    let program = words.next().unwrap_or_default();
    let name = program
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or("betz")
        .to_owned();
    std::iter::once(name)
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Model of the processor, as Linux says; else its architecture.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("model name"));
    let model = line
        .and_then(|l| l.split_once(':'))
        .map(|(_, name)| name.trim());
    model.unwrap_or(std::env::consts::ARCH).to_owned()
}

fn memory() -> Option<String> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(format!("{} MiB", whole(kib >> 10)))
}

fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn the_command_names_no_folder_of_the_program() {
        let words = ["/opt/bin/betz", "reproduce", "som", "--out", "som.html"];
        let told = command(words.into_iter().map(str::to_owned));
        assert_eq!(told, "betz reproduce som --out som.html");
    }
}
