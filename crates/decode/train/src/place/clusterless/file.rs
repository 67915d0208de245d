//! The file of a clusterless place decoder: a frame with a checksum around little-endian numbers.

use std::io::Write as _;
use std::path::Path;

use super::{ClusterlessPlace, ClusterlessShape, Group, MAX_FEATURES};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::file::{open_file, read_all, write_atomically};
use betz_base::frame::Content;
use betz_base::wire::{Reader, Writer};
use betz_recording::OutputInfo;
use betz_runtime::model::{Belief, MAX_CELLS, MAX_CHANNELS, MAX_OUTPUTS, Place};

const CONTENT: Content = Content {
    magic: *b"BETZCLUS",
    name: "a clusterless place decoder",
    damaged: ErrorKind::InvalidModel,
};
const VERSION: u32 = 1;

/// Largest file that is read, in bytes.
const MOST: u64 = 1 << 30;

impl ClusterlessPlace {
    /// First bytes of the file.
    pub const MAGIC: [u8; 8] = CONTENT.magic;

    /// The decoder as the bytes of a file. Equal decoders give equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer::framed();
        to.text(&self.betz_version);
        to.f64(self.step_seconds);
        to.u32(self.features as u32);
        let ClusterlessShape {
            bandwidth,
            smoothing,
            pace,
            trust,
        } = self.shape;
        [bandwidth, smoothing, pace, trust]
            .iter()
            .for_each(|v| to.f64(*v));
        to.u32(self.outputs.len() as u32);
        for output in &self.outputs {
            to.text(&output.name);
            to.text(&output.unit);
        }
        to.u32(self.channel_names.len() as u32);
        self.channel_names.iter().for_each(|name| to.text(name));
        for list in [&self.place.shape, &self.place.cells] {
            to.u32(list.len() as u32);
            list.iter().for_each(|v| to.u64(*v));
        }
        to.f64s(&self.place.start);
        to.f32s(&self.place.walk);
        to.f64(self.place.jump);
        to.f64s(&self.place.values);
        to.f64s(&self.ground);
        for group in &self.groups {
            to.u32(group.columns.len() as u32);
            group.columns.iter().for_each(|c| to.u32(*c));
            [&group.means, &group.variances, &group.rates]
                .iter()
                .for_each(|list| to.f32s(list));
        }
        to.seal(CONTENT, VERSION)
    }

    /// The decoder in the bytes of a file, checked. No length in the file is believed before its bytes are there.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] for damaged bytes, for another file, and for parts that do not fit together;
    /// [`ErrorKind::UnsupportedVersion`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (_, mut from) = CONTENT.read(bytes, VERSION..=VERSION)?;
        let model = read(&mut from)?;
        from.end()?;
        model.check_parts()?;
        Ok(model)
    }

    /// Writes the file `path`, whole or not at all.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]; [`ErrorKind::InvalidModel`] for a decoder that could not be read again: variances or rates beyond f32,
    /// or a file that is too large.
    pub fn save(&self, path: &Path) -> Result<()> {
        self.check_parts().map_err(|e| e.at(path.display()))?;
        let bytes = self.to_bytes();
        if bytes.len() as u64 > MOST {
            let text = format!(
                "expected at most {MOST} bytes, got {}; take fewer cells",
                bytes.len()
            );
            return Err(CONTENT.error(text).at(path.display()));
        }
        write_atomically(path, |file| file.write_all(&bytes))
    }

    /// Reads the file `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Io`], and those of [`ClusterlessPlace::from_bytes`].
    pub fn load(path: &Path) -> Result<Self> {
        let about = open_file(path)?
            .metadata()
            .map_err(|e| Error::io("reading", path, &e))?;
        if about.len() > MOST {
            let text = format!("expected at most {MOST} bytes, got {}", about.len());
            return Err(CONTENT.error(text).at(path.display()));
        }
        let bytes = read_all(path, Some(&CONTENT.magic))?;
        Self::from_bytes(&bytes).map_err(|e| e.at(path.display()))
    }

    /// Refuses parts that do not fit together, or numbers that are out of range.
    fn check_parts(&self) -> Result<()> {
        let expect = |fits: bool, what: &str| match fits {
            true => Ok(()),
            false => Err(CONTENT.error(format!("expected {what}, got others"))),
        };
        let positive = |v: f64| v.is_finite() && v > 0.0;
        let ClusterlessShape {
            bandwidth,
            smoothing,
            pace,
            trust,
        } = self.shape;
        let numbers = [self.step_seconds, bandwidth, smoothing, pace, trust];
        expect(numbers.iter().all(|v| positive(*v)), "numbers above 0")?;
        expect(
            (1..=MAX_OUTPUTS).contains(&self.outputs.len()),
            "one output or more",
        )?;
        expect(
            (1..=MAX_FEATURES).contains(&self.features),
            "1 to 64 features",
        )?;
        // Checks the place.
        Belief::new(&self.place, self.outputs.len())?;
        let cells = self.place.cells.len();
        expect(self.ground.len() == cells, "one ground intensity per cell")?;
        expect(
            self.ground.iter().all(|g| g.is_finite() && *g >= 0.0),
            "ground intensities of 0 or more",
        )?;
        for group in &self.groups {
            let (d, components) = (group.columns.len(), group.rates.len() / cells.max(1));
            let ascend = group.columns.windows(2).all(|pair| pair[0] < pair[1]);
            let inside = group.columns.iter().all(|c| (*c as usize) < self.features);
            expect(ascend && inside, "ascending columns of the features")?;
            let sizes = group.rates.len() == components * cells
                && group.means.len() == components * d
                && group.variances.len() == components * d
                && (d > 0 || components == 0);
            expect(sizes, "means, variances and rates of as many components")?;
            expect(group.means.iter().all(|m| m.is_finite()), "finite means")?;
            let wide = |v: &f32| v.is_finite() && *v >= f32::MIN_POSITIVE;
            expect(group.variances.iter().all(wide), "variances above 0")?;
            expect(
                group.rates.iter().all(|r| r.is_finite() && *r >= 0.0),
                "rates of 0 or more",
            )?;
        }
        Ok(())
    }
}

/// The parts of a decoder, in the order in which they were written.
fn read(from: &mut Reader<'_>) -> Result<ClusterlessPlace> {
    let betz_version = from.at("version").text()?;
    let step_seconds = from.at("step").f64()?;
    let features = from.at("features").u32()? as usize;
    let mut number = || from.at("shape").f64();
    let shape = ClusterlessShape {
        bandwidth: number()?,
        smoothing: number()?,
        pace: number()?,
        trust: number()?,
    };
    let mut outputs = Vec::new();
    for _ in 0..count(from, "outputs", MAX_OUTPUTS)? {
        let (name, unit) = (from.text()?, from.text()?);
        outputs.push(OutputInfo { name, unit });
    }
    let mut channel_names = Vec::new();
    for _ in 0..count(from, "channels", MAX_CHANNELS)? {
        channel_names.push(from.text()?);
    }
    let mut list = |what, most| -> Result<Vec<u64>> {
        (0..count(from, what, most)?).map(|_| from.u64()).collect()
    };
    let place = Place {
        shape: list("axes", 3)?,
        cells: list("cells", MAX_CELLS)?,
        start: from.at("start").f64s()?,
        walk: from.at("walk").f32s()?,
        jump: from.at("jump").f64()?,
        values: from.at("values").f64s()?,
    };
    let ground = from.at("ground intensity").f64s()?;
    let mut groups = Vec::new();
    for _ in 0..channel_names.len() {
        let columns = count(from, "columns", MAX_FEATURES)?;
        groups.push(Group {
            columns: (0..columns).map(|_| from.u32()).collect::<Result<_>>()?,
            means: from.at("means").f32s()?,
            variances: from.at("variances").f32s()?,
            rates: from.at("rates").f32s()?,
        });
    }
    Ok(ClusterlessPlace {
        step_seconds,
        betz_version,
        outputs,
        channel_names,
        features,
        shape,
        place,
        ground,
        groups,
    })
}

/// A length of at most `most`.
fn count(from: &mut Reader<'_>, what: &'static str, most: usize) -> Result<usize> {
    let count = from.at(what).u32()? as usize;
    match count <= most {
        true => Ok(count),
        false => Err(from.error(format_args!("expected at most {most}, got {count}"))),
    }
}
