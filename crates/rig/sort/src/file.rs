//! The file of a sorter: a frame with a checksum around plain little-endian numbers.

use std::path::Path;

use betz_base::error::Result;
use betz_base::file::open_file;
use betz_base::frame::Content;
use betz_base::wire::{Reader, Writer};
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
        let mut w = Writer::framed();
        put_settings(&mut w, &self.settings, self.forget_seconds);
        w.u32(self.layout.row_channels as u32);
        put_words(&mut w, &self.layout.used);
        put_floats(&mut w, self.layout.places.as_flattened());
        put_floats(&mut w, &self.layout.noise);
        put_floats(&mut w, &self.layout.focused);
        put_floats(&mut w, &self.layout.regression);
        put_floats(&mut w, self.waves.waves());
        put_words(&mut w, &self.group_of);
        put_list(&mut w, &self.groups, put_group);
        put_list(&mut w, &self.units, put_unit);
        put_list(&mut w, &self.edits, put_edit);
        w.seal(CONTENT, VERSION)
    }

    /// Reads what [`Sorter::to_bytes`] made. No length in the file is believed before its bytes are there.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] for what is none, or damaged; [`ErrorKind::UnsupportedVersion`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (_, reader) = CONTENT.read(bytes, VERSION..=VERSION)?;
        let mut parts = Parts(reader);
        let sorter = parts.sorter()?;
        parts.0.end()?;
        sorter.check()?;
        Ok(sorter)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`ErrorKind::Io`], and those of [`Sorter::from_bytes`].
    pub fn load(path: &Path) -> Result<Self> {
        let io = |e: std::io::Error| Error::io("reading", path, &e);
        // A pipe is refused, as for models: opening it would wait for its writer.
        let size = open_file(path)?.metadata().map_err(io)?.len();
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

/// A list behind its length of 4 bytes.
fn put_words(to: &mut Writer, words: &[u32]) {
    to.u32(words.len() as u32);
    words.iter().for_each(|w| to.u32(*w));
}

/// As [`put_words`].
fn put_floats(to: &mut Writer, floats: &[f32]) {
    to.u32(floats.len() as u32);
    floats.iter().for_each(|f| to.f32(*f));
}

/// Parts behind their number of 4 bytes.
fn put_list<T>(to: &mut Writer, parts: &[T], put: impl Fn(&mut Writer, &T)) {
    to.u32(parts.len() as u32);
    parts.iter().for_each(|part| put(to, part));
}

fn put_settings(w: &mut Writer, s: &Settings, forget_seconds: f64) {
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
        forget_seconds,
    ] {
        w.f64(number);
    }
    w.u32(s.order as u32);
    w.u32(match s.reference {
        Reference::None => 0,
        Reference::Average => 1,
        Reference::Median => 2,
        Reference::Regression => 3,
    });
}

fn put_group(w: &mut Writer, group: &Group) {
    let axes = &group.axes;
    for number in [axes.from, axes.until, axes.dims, group.rows, group.columns] {
        w.u32(number as u32);
    }
    put_floats(w, &axes.mean);
    put_floats(w, &axes.axes);
    put_floats(w, &group.weights);
    put_words(w, &group.labels);
    put_words(w, &group.hits);
}

fn put_unit(w: &mut Writer, unit: &Unit) {
    for number in [unit.id, unit.group, unit.channel] {
        w.u32(number);
    }
    w.u64(unit.spikes);
    w.f64(unit.rate_hz);
    put_floats(w, &[unit.microvolts, unit.gate]);
    put_floats(w, &unit.centre);
    put_floats(w, &unit.waveform);
    w.u32(unit.more.len() as u32);
    for template in std::iter::once(&unit.template).chain(&unit.more) {
        w.u32(template.from as u32);
        w.u32(template.until as u32);
        put_floats(w, &template.shapes);
        put_floats(w, &template.weights);
        put_floats(w, &[template.floor]);
    }
    put_list(w, &unit.beyond, |w, beyond| {
        w.u32(beyond.group);
        w.f64(beyond.rate_hz);
        put_floats(w, &[beyond.gate]);
        put_floats(w, &beyond.centre);
    });
}

fn put_edit(w: &mut Writer, edit: &Edit) {
    match edit {
        Edit::Merge { units } => {
            w.u32(0);
            put_words(w, units);
        }
        Edit::Split { unit, nodes } => {
            w.u32(1);
            w.u32(*unit);
            put_words(w, nodes);
        }
    }
}

/// Takes a sorter's parts in the order in which they were written.
struct Parts<'a>(Reader<'a>);

impl Parts<'_> {
    fn damaged(&self) -> Error {
        self.0.error("its parts do not fit together")
    }

    fn size(&mut self) -> Result<usize> {
        Ok(self.0.u32()? as usize)
    }

    fn words(&mut self) -> Result<Vec<u32>> {
        let count = self.0.u32()?;
        self.0.u32_list(u64::from(count))
    }

    fn floats(&mut self) -> Result<Vec<f32>> {
        let count = self.0.u32()?;
        self.0.f32_list(u64::from(count))
    }

    fn template(&mut self) -> Result<Template> {
        let (from, until) = (self.size()?, self.size()?);
        let (shapes, weights) = (self.floats()?, self.floats()?);
        let [floor] = self.floats()?[..] else {
            return Err(self.damaged());
        };
        Ok(Template {
            from,
            until,
            shapes,
            weights,
            floor,
        })
    }

    /// Parts behind their number.
    fn list<T>(&mut self, part: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        // Not collected: room would be made for a number that is not yet believed.
        let mut parts = Vec::new();
        for _ in 0..self.0.u32()? {
            parts.push(part(self)?);
        }
        Ok(parts)
    }

    /// The settings, and the seconds after which a unit is forgotten.
    fn settings(&mut self) -> Result<(Settings, f64)> {
        let mut settings = Settings::new(self.0.f64()?, self.0.f64()?);
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
            *number = self.0.f64()?;
        }
        let forget_seconds = self.0.f64()?;
        if !(forget_seconds >= 0.0 && forget_seconds.is_finite()) {
            return Err(self.damaged());
        }
        settings.order = self.size()?;
        settings.reference = match self.0.u32()? {
            0 => Reference::None,
            1 => Reference::Average,
            2 => Reference::Median,
            3 => Reference::Regression,
            _ => return Err(self.damaged()),
        };
        let sound = settings.check();
        sound.map_err(|e| e.of_kind(ErrorKind::InvalidModel))?;
        Ok((settings, forget_seconds))
    }

    fn layout(&mut self) -> Result<Layout> {
        let row_channels = self.size()?;
        let used = self.words()?;
        let places = self.floats()?;
        let (places, rest) = places.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(self.damaged());
        }
        Ok(Layout {
            row_channels,
            used,
            places: places.to_vec(),
            noise: self.floats()?,
            focused: self.floats()?,
            regression: self.floats()?,
        })
    }

    fn group(&mut self) -> Result<Group> {
        let (from, until, dims) = (self.size()?, self.size()?, self.size()?);
        let (rows, columns) = (self.size()?, self.size()?);
        Ok(Group {
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
        })
    }

    fn unit(&mut self) -> Result<Unit> {
        let (id, group, channel) = (self.0.u32()?, self.0.u32()?, self.0.u32()?);
        let (spikes, rate_hz) = (self.0.u64()?, self.0.f64()?);
        let [microvolts, gate] = self.floats()?[..] else {
            return Err(self.damaged());
        };
        let (centre, waveform) = (self.floats()?, self.floats()?);
        let more = self.0.u32()?;
        let template = self.template()?;
        Ok(Unit {
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
            more: (0..more).map(|_| self.template()).collect::<Result<_>>()?,
            beyond: self.list(Self::beyond)?,
        })
    }

    fn beyond(&mut self) -> Result<Beyond> {
        let (group, rate_hz) = (self.0.u32()?, self.0.f64()?);
        let [gate] = self.floats()?[..] else {
            return Err(self.damaged());
        };
        Ok(Beyond {
            group,
            rate_hz,
            centre: self.floats()?,
            gate,
        })
    }

    fn edit(&mut self) -> Result<Edit> {
        match self.0.u32()? {
            0 => Ok(Edit::Merge {
                units: self.words()?,
            }),
            1 => Ok(Edit::Split {
                unit: self.0.u32()?,
                nodes: self.words()?,
            }),
            _ => Err(self.damaged()),
        }
    }

    fn sorter(&mut self) -> Result<Sorter> {
        let (settings, forget_seconds) = self.settings()?;
        let layout = self.layout()?;
        let waves = Waves::new(Window::from_settings(&settings), self.floats()?);
        Ok(Sorter {
            waves: waves.map_err(|e| e.of_kind(ErrorKind::InvalidModel))?,
            layout,
            group_of: self.words()?,
            groups: self.list(Self::group)?,
            units: self.list(Self::unit)?,
            edits: self.list(Self::edit)?,
            settings,
            forget_seconds,
        })
    }
}
