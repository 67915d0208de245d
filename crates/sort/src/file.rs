//! The file of a sorter: a frame with a checksum around plain little-endian numbers.

use std::path::Path;

use betz_base::error::Result;
use betz_base::frame::{self, Content, HEADER};
use betz_base::{Error, ErrorKind};

use crate::feature::{Axes, Waves};
use crate::front::Layout;
use crate::settings::{Reference, Settings, Window};
use crate::sorter::{Beyond, Edit, Group, Sorter, Unit};
use crate::template::Template;

const CONTENT: Content = Content {
    magic: *b"BETZSORT",
    name: "a sorter",
    damaged: ErrorKind::InvalidModel,
};
const VERSION: u32 = 3;
/// Most bytes of a file: 16,384 channels with a regression would not fit, nor would anything sensible be larger.
const MOST: u64 = 1 << 30;

impl Sorter {
    /// The file's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut w = Writer(vec![0; HEADER]);
        let s = &self.settings;
        for number in [
            s.rate_hz,
            s.microvolts,
            s.low_hz,
            s.high_hz,
            s.focus_um,
            s.threshold,
            s.exclusive_ms,
            s.exclusive_um,
            s.artefact_microvolts,
            s.blank_ms,
            s.tracking_seconds,
            self.forget_seconds,
        ] {
            w.double(number);
        }
        w.word(s.order as u32);
        w.word(match s.reference {
            Reference::None => 0,
            Reference::Average => 1,
            Reference::Median => 2,
            Reference::Regression => 3,
        });
        w.word(self.layout.row_channels as u32);
        w.words(&self.layout.used);
        w.floats(self.layout.places.as_flattened());
        w.floats(&self.layout.noise);
        w.floats(&self.layout.focused);
        w.floats(&self.layout.regression);
        w.floats(self.waves.waves());
        w.words(&self.group_of);
        w.word(self.groups.len() as u32);
        for group in &self.groups {
            let axes = &group.axes;
            for number in [axes.from, axes.until, axes.dims, group.rows, group.columns] {
                w.word(number as u32);
            }
            w.floats(&axes.mean);
            w.floats(&axes.axes);
            w.floats(&group.weights);
            w.words(&group.labels);
            w.words(&group.hits);
        }
        w.word(self.units.len() as u32);
        for unit in &self.units {
            for number in [unit.id, unit.group, unit.channel] {
                w.word(number);
            }
            w.long(unit.spikes);
            w.double(unit.rate_hz);
            w.floats(&[unit.microvolts, unit.gate]);
            w.floats(&unit.centre);
            w.floats(&unit.waveform);
            w.word(unit.more.len() as u32);
            for template in std::iter::once(&unit.template).chain(&unit.more) {
                w.word(template.from as u32);
                w.word(template.until as u32);
                w.floats(&template.shapes);
                w.floats(&template.weights);
                w.floats(&[template.floor]);
            }
            w.word(unit.beyond.len() as u32);
            for beyond in &unit.beyond {
                w.word(beyond.group);
                w.double(beyond.rate_hz);
                w.floats(&[beyond.gate]);
                w.floats(&beyond.centre);
            }
        }
        w.word(self.edits.len() as u32);
        for edit in &self.edits {
            match edit {
                Edit::Merge { units } => {
                    w.word(0);
                    w.words(units);
                }
                Edit::Split { unit, nodes } => {
                    w.word(1);
                    w.word(*unit);
                    w.words(nodes);
                }
            }
        }
        let mut bytes = w.0;
        bytes.extend([0; 4]);
        frame::seal(CONTENT, VERSION, &mut bytes);
        bytes
    }

    /// Reads what [`Sorter::to_bytes`] made. No length in the file is believed before its bytes are there.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] for what is none, or damaged; [`ErrorKind::UnsupportedVersion`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (version, payload) = frame::open(CONTENT, bytes)?;
        if version != VERSION {
            return Err(Error::new(
                ErrorKind::UnsupportedVersion,
                format!("a sorter: expected version {VERSION}, got {version}"),
            ));
        }
        let mut r = Reader(payload);
        let sorter = r.sorter()?;
        if !r.0.is_empty() {
            return Err(damaged());
        }
        sorter.check()?;
        Ok(sorter)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`ErrorKind::Io`], and those of [`Sorter::from_bytes`].
    pub fn load(path: &Path) -> Result<Self> {
        let io = |e: std::io::Error| Error::io("reading", path, &e);
        let size = std::fs::metadata(path).map_err(io)?.len();
        if size > MOST {
            return Err(Error::new(
                ErrorKind::InvalidModel,
                format!("expected a sorter of at most {MOST} bytes, got {size}"),
            )
            .at(path.display()));
        }
        let bytes = betz_base::file::read_all(path, Some(&CONTENT.magic))?;
        Self::from_bytes(&bytes).map_err(|e| e.at(path.display()))
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn save(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes();
        betz_base::file::write_atomically(path, |file| std::io::Write::write_all(file, &bytes))
    }
}

fn damaged() -> Error {
    Error::new(
        ErrorKind::InvalidModel,
        "a sorter: its parts do not add up to its length",
    )
}

struct Writer(Vec<u8>);

impl Writer {
    fn word(&mut self, word: u32) {
        self.0.extend(word.to_le_bytes());
    }

    fn long(&mut self, long: u64) {
        self.0.extend(long.to_le_bytes());
    }

    fn double(&mut self, number: f64) {
        self.long(number.to_bits());
    }

    fn words(&mut self, words: &[u32]) {
        self.word(words.len() as u32);
        words.iter().for_each(|w| self.word(*w));
    }

    fn floats(&mut self, floats: &[f32]) {
        self.word(floats.len() as u32);
        floats.iter().for_each(|f| self.word(f.to_bits()));
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn word(&mut self) -> Result<u32> {
        let (word, rest) = self.0.split_first_chunk::<4>().ok_or_else(damaged)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*word))
    }

    fn size(&mut self) -> Result<usize> {
        Ok(self.word()? as usize)
    }

    fn long(&mut self) -> Result<u64> {
        let (long, rest) = self.0.split_first_chunk::<8>().ok_or_else(damaged)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*long))
    }

    fn double(&mut self) -> Result<f64> {
        Ok(f64::from_bits(self.long()?))
    }

    fn words(&mut self) -> Result<Vec<u32>> {
        let bytes = self.size()?.checked_mul(4).ok_or_else(damaged)?;
        let (words, rest) = self.0.split_at_checked(bytes).ok_or_else(damaged)?;
        self.0 = rest;
        let (words, _) = words.as_chunks::<4>();
        Ok(words.iter().map(|w| u32::from_le_bytes(*w)).collect())
    }

    fn floats(&mut self) -> Result<Vec<f32>> {
        Ok(self.words()?.into_iter().map(f32::from_bits).collect())
    }

    fn template(&mut self) -> Result<Template> {
        let (from, until) = (self.size()?, self.size()?);
        let (shapes, weights) = (self.floats()?, self.floats()?);
        let [floor] = self.floats()?[..] else {
            return Err(damaged());
        };
        Ok(Template {
            from,
            until,
            shapes,
            weights,
            floor,
        })
    }

    fn sorter(&mut self) -> Result<Sorter> {
        let mut settings = Settings::new(self.double()?, self.double()?);
        for number in [
            &mut settings.low_hz,
            &mut settings.high_hz,
            &mut settings.focus_um,
            &mut settings.threshold,
            &mut settings.exclusive_ms,
            &mut settings.exclusive_um,
            &mut settings.artefact_microvolts,
            &mut settings.blank_ms,
            &mut settings.tracking_seconds,
        ] {
            *number = self.double()?;
        }
        let forget_seconds = self.double()?;
        if !(forget_seconds >= 0.0 && forget_seconds.is_finite()) {
            return Err(damaged());
        }
        settings.order = self.size()?;
        settings.reference = match self.word()? {
            0 => Reference::None,
            1 => Reference::Average,
            2 => Reference::Median,
            3 => Reference::Regression,
            _ => return Err(damaged()),
        };
        settings
            .check()
            .map_err(|e| e.of_kind(ErrorKind::InvalidModel))?;
        let row_channels = self.size()?;
        let used = self.words()?;
        let places = self.floats()?;
        let (places, rest) = places.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(damaged());
        }
        let layout = Layout {
            row_channels,
            used,
            places: places.to_vec(),
            noise: self.floats()?,
            focused: self.floats()?,
            regression: self.floats()?,
        };
        let waves = Waves::new(Window::from_settings(&settings), self.floats()?)
            .map_err(|e| e.of_kind(ErrorKind::InvalidModel))?;
        let group_of = self.words()?;
        let mut groups = Vec::new();
        for _ in 0..self.word()? {
            let (from, until, dims) = (self.size()?, self.size()?, self.size()?);
            let (rows, columns) = (self.size()?, self.size()?);
            groups.push(Group {
                axes: Axes {
                    from,
                    until,
                    dims,
                    mean: self.floats()?,
                    axes: self.floats()?,
                },
                rows,
                columns,
                weights: self.floats()?,
                labels: self.words()?,
                hits: self.words()?,
            });
        }
        let mut units = Vec::new();
        for _ in 0..self.word()? {
            let (id, group, channel) = (self.word()?, self.word()?, self.word()?);
            let (spikes, rate_hz) = (self.long()?, self.double()?);
            let [microvolts, gate] = self.floats()?[..] else {
                return Err(damaged());
            };
            let (centre, waveform) = (self.floats()?, self.floats()?);
            let more = self.word()?;
            let template = self.template()?;
            let more = (0..more).map(|_| self.template()).collect::<Result<_>>()?;
            let mut beyond = Vec::new();
            for _ in 0..self.word()? {
                let (group, rate_hz) = (self.word()?, self.double()?);
                let [gate] = self.floats()?[..] else {
                    return Err(damaged());
                };
                beyond.push(Beyond {
                    group,
                    rate_hz,
                    centre: self.floats()?,
                    gate,
                });
            }
            units.push(Unit {
                id,
                group,
                channel,
                spikes,
                rate_hz,
                microvolts,
                centre,
                gate,
                waveform,
                template,
                more,
                beyond,
            });
        }
        let mut edits = Vec::new();
        for _ in 0..self.word()? {
            edits.push(match self.word()? {
                0 => Edit::Merge {
                    units: self.words()?,
                },
                1 => Edit::Split {
                    unit: self.word()?,
                    nodes: self.words()?,
                },
                _ => return Err(damaged()),
            });
        }
        Ok(Sorter {
            settings,
            layout,
            waves,
            group_of,
            groups,
            units,
            edits,
            forget_seconds,
        })
    }
}
