//! Banks as text: what `betz train --filter` and `betz.Decoder(bank=…)` take, one filter or basis per text.
//!
//! | text | filter |
//! |---|---|
//! | `0.05:1`, `50ms:1` | t^n e^(−t/τ), τ and order n |
//! | `boxcar:50ms` | constant over 50 ms |
//! | `gauss:30ms` | a Gaussian of standard deviation 30 ms around the spike: looks ahead |
//! | `halfgauss:60ms` | its causal half |
//! | `biexp:0.5ms:5ms` | difference of exponentials, rise and decay |
//! | `cosine:8:10ms..800ms` | eight raised cosines in logarithmic time, peaks from 10 to 800 ms |
//! | `file:epsc.csv` | lines of time in seconds and value; a curve, averaged over each step |
//! | `file:kernel.npy` | samples on the model's steps, or (samples, 2): time and value |
//!
//! `@TIME` behind any but the first shifts it: `gauss:30ms@120ms` needs no future.

mod fit;

use std::path::Path;

use betz_base::error::{Error, Result};
use betz_runtime::psc::{Filter, FilterBank, KernelShape, SampledFilter};

pub use fit::{FittedFilter, MOST_TERMS, Term, fit, fit_decoder};

/// Units of time, longest name first, and their number in a second.
const UNITS: [(&str, f64); 5] = [
    ("min", 1.0 / 60.0),
    ("us", 1e6),
    ("µs", 1e6),
    ("ms", 1e3),
    ("s", 1.0),
];

/// Largest file of a filter that is read, in bytes.
const MOST_BYTES: u64 = 1 << 28;

/// The bank of `texts`, one filter or basis each, on steps of `step_seconds`. Sampled filters have a sum of one, unless
/// `keep_gain`.
///
/// ```
/// use betz_train::filters::bank;
///
/// let texts = ["50ms:1".to_owned(), "boxcar:20ms".to_owned(), "cosine:3:10ms..80ms".to_owned()];
/// let bank = bank(&texts, 0.001, false)?;
/// assert_eq!((bank.filters().len(), bank.sampled().len()), (1, 4));
/// # Ok::<(), betz_base::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a text that is none of these, and the errors
/// of [`KernelShape::filters`], [`SampledFilter::through`] and [`FilterBank::with_sampled`];
/// [`ErrorKind::Io`](betz_base::ErrorKind::Io). Messages name the filter and its file.
pub fn bank(texts: &[String], step_seconds: f64, keep_gain: bool) -> Result<FilterBank> {
    let (mut recursive, mut sampled) = (Vec::new(), Vec::new());
    for text in texts {
        match recursive_filter(text) {
            Some(filter) => recursive.push(filter),
            None => sampled.extend(sampled_filters(text, step_seconds, keep_gain)?),
        }
    }
    FilterBank::with_sampled(recursive, sampled)
}

fn recursive_filter(text: &str) -> Option<Filter> {
    let (tau, order) = text.split_once(':')?;
    Some(Filter {
        tau_seconds: seconds(tau)?,
        order: order.parse().ok()?,
    })
}

fn sampled_filters(text: &str, step_seconds: f64, keep_gain: bool) -> Result<Vec<SampledFilter>> {
    let (kind, rest) = text.split_once(':').ok_or_else(|| unknown(text))?;
    // A file's name may hold an @.
    let (rest, late) = match rest.rsplit_once('@') {
        Some((rest, late)) if seconds(late).is_some() => (rest, seconds(late)),
        _ => (rest, None),
    };
    let time = |text: &str| seconds(text).ok_or_else(|| unknown(text));
    let two = |separator: &str| rest.split_once(separator).ok_or_else(|| unknown(text));
    let shape = match kind {
        "boxcar" => KernelShape::Boxcar {
            seconds: time(rest)?,
        },
        "gauss" => KernelShape::Gauss {
            sigma_seconds: time(rest)?,
        },
        "halfgauss" => KernelShape::HalfGauss {
            sigma_seconds: time(rest)?,
        },
        "biexp" => {
            let (rise, decay) = two(":")?;
            KernelShape::Biexp {
                rise_seconds: time(rise)?,
                decay_seconds: time(decay)?,
            }
        }
        "cosine" => {
            let (count, times) = two(":")?;
            let (first, last) = times.split_once("..").ok_or_else(|| unknown(text))?;
            KernelShape::Cosine {
                count: count.parse().map_err(|_| unknown(text))?,
                first_seconds: time(first)?,
                last_seconds: time(last)?,
            }
        }
        "file" => {
            let filter = read(text, Path::new(rest), step_seconds)?;
            let filter = match keep_gain {
                true => filter,
                false => filter.with_unit_sum()?,
            };
            return shifted(vec![filter], late, step_seconds);
        }
        _ => return Err(unknown(text)),
    };
    if keep_gain {
        return Err(Error::argument(format!(
            "filter {text}: expected --keep-gain with filters from a file only, because a shape has no gain of its own"
        )));
    }
    shifted(shape.filters(text, step_seconds)?, late, step_seconds)
}

/// `filters`, later by `late` seconds, in whole steps.
fn shifted(
    filters: Vec<SampledFilter>,
    late: Option<f64>,
    step_seconds: f64,
) -> Result<Vec<SampledFilter>> {
    let Some(late) = late else { return Ok(filters) };
    let steps = (late / step_seconds).round() as i64;
    filters.into_iter().map(|f| f.shifted(steps)).collect()
}

fn unknown(text: &str) -> Error {
    Error::argument(format!(
        "--filter: expected TAU:ORDER such as 0.05:1, boxcar:TIME, gauss:TIME, halfgauss:TIME, biexp:RISE:DECAY, cosine:N:FIRST..LAST or file:NAME, with times such as 50ms, got '{text}'"
    ))
}

/// A time: seconds, or a number with its unit.
fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Some(seconds);
    }
    let (number, per_second) = UNITS
        .iter()
        .find_map(|(unit, per_second)| Some((text.strip_suffix(unit)?, per_second)))?;
    let number: f64 = number.trim_end().parse().ok()?;
    Some(number / per_second)
}

/// The filter in a file.
fn read(name: &str, path: &Path, step_seconds: f64) -> Result<SampledFilter> {
    let size = std::fs::metadata(path).map_err(|e| Error::io("reading a filter", path, &e))?;
    if !size.is_file() || size.len() > MOST_BYTES {
        return Err(Error::argument(format!(
            "filter {name}: expected a file of at most {MOST_BYTES} bytes, got {} bytes",
            size.len()
        )));
    }
    if path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("npy"))
    {
        return read_array(name, path, step_seconds);
    }
    let bytes = std::fs::read(path).map_err(|e| Error::io("reading a filter", path, &e))?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Error::argument(format!(
            "filter {name}: expected lines of a time in seconds and a value, got bytes that are not text; give an array a name that ends in .npy"
        ))
    })?;
    let mut points = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let parts = line
            .split([',', ';', '\t', ' '])
            .filter(|part| !part.is_empty());
        let parts: Vec<&str> = parts.map(str::trim).collect();
        let values: Option<Vec<f64>> = parts.iter().map(|part| part.parse().ok()).collect();
        match values.as_deref() {
            _ if line.is_empty() || line.starts_with('#') => {}
            Some([time, value]) => points.push((*time, *value)),
            // The first line may name the columns.
            None if points.is_empty() && number == 0 => {}
            _ => {
                return Err(Error::argument(format!(
                    "filter {name}, line {}: expected a time in seconds and a value, such as 0.005,1, got '{line}'",
                    number + 1
                )));
            }
        }
    }
    SampledFilter::through(name, &points, step_seconds)
}

#[cfg(feature = "npz")]
fn read_array(name: &str, path: &Path, step_seconds: f64) -> Result<SampledFilter> {
    let array =
        betz_recording::arrays::read_npy(path).map_err(|e| e.at(format_args!("filter {name}")))?;
    let values: Vec<f64> = match array.values {
        betz_recording::arrays::Values::F32(values) => values.into_iter().map(f64::from).collect(),
        betz_recording::arrays::Values::F64(values) => values,
        _ => {
            return Err(Error::argument(format!(
                "filter {name}: expected an array of float32 or float64, got another kind of number"
            )));
        }
    };
    match array.shape[..] {
        [_] => SampledFilter::new(name, values, step_seconds, 0),
        [_, 2] => {
            let (pairs, _) = values.as_chunks::<2>();
            let points: Vec<(f64, f64)> = pairs.iter().map(|[t, v]| (*t, *v)).collect();
            SampledFilter::through(name, &points, step_seconds)
        }
        _ => Err(Error::argument(format!(
            "filter {name}: expected the shape (samples,), or (samples, 2) with time and value, got {:?}; give every filter its own file",
            array.shape
        ))),
    }
}

#[cfg(not(feature = "npz"))]
fn read_array(name: &str, _: &Path, _: f64) -> Result<SampledFilter> {
    Err(Error::argument(format!(
        "filter {name}: expected text of times and values, because this Betz reads no .npy"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str], step: f64) -> Result<FilterBank> {
        let texts: Vec<String> = texts.iter().map(|t| (*t).to_owned()).collect();
        bank(&texts, step, false)
    }

    #[test]
    fn every_form_makes_its_filter() {
        let bank = of(
            &["50ms:1", "gauss:3ms@12ms", "biexp:0.5ms:5ms", "0.1:0"],
            0.001,
        )
        .unwrap();
        assert_eq!(bank.filters().len(), 2);
        assert_eq!(bank.filters()[0].tau_seconds, 0.05);
        assert_eq!((bank.sampled().len(), bank.ahead()), (2, 0));
        assert_eq!(of(&["gauss:3ms"], 0.001).unwrap().ahead(), 12);
        assert_eq!(of(&["cosine:5:10ms..200ms"], 0.005).unwrap().len(), 5);
    }

    #[test]
    fn files_are_read_and_their_faults_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            format!("file:{}", path.display())
        };
        let good = write("k.csv", "time,value\n0,0\n0.002,1\n0.004,0\n");
        let bank = of(&[&good], 0.001).unwrap();
        let filter = &bank.sampled()[0];
        assert!((filter.samples().iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let kept = super::bank(std::slice::from_ref(&good), 0.001, true).unwrap();
        assert!((kept.sampled()[0].samples().iter().sum::<f64>() - 2.0).abs() < 1e-12);
        for (text, says) in [
            (write("empty.csv", "time,value\n"), "two points"),
            (write("words.csv", "0,0\n1,x\n"), "line 2"),
            (write("nan.csv", "0,0\n1,nan\n"), "finite"),
            (write("zero.csv", "0,0\n0.01,0\n"), "zeros"),
            (write("back.csv", "0,0\n0.02,1\n0.01,0\n"), "ascend"),
            (write("balanced.csv", "-0.001,-1\n0.001,1\n"), "--keep-gain"),
            (
                format!("file:{}/none.csv", folder.path().display()),
                "none.csv",
            ),
        ] {
            let message = of(&[&text], 0.001).unwrap_err().to_string();
            assert!(
                message.contains(says) && message.contains(&text["file:".len()..]),
                "{message}"
            );
        }
    }

    #[test]
    fn texts_that_name_no_filter_are_refused_with_the_forms() {
        for text in [
            "",
            "x",
            "boxcar",
            "boxcar:x",
            "cosine:8:10ms",
            "cosine:x:1ms..2ms",
            "wavelet:3ms",
        ] {
            let message = of(&[text], 0.001).unwrap_err().to_string();
            assert!(message.contains("halfgauss:TIME"), "{text}: {message}");
        }
        assert!(super::bank(&["boxcar:5ms".into()], 0.001, true).is_err());
        assert!(of(&["boxcar:5ms", "boxcar:5ms"], 0.001).is_err());
    }

    /// The samples of a recursive filter train the decoder that the filter itself does.
    #[test]
    fn samples_of_a_recursive_filter_train_the_same_decoder() {
        let case = betz_gram::cases::all().remove(1);
        let recursive = case.bank.filters()[0];
        let samples = recursive.impulse(case.data.step_seconds, 400);
        let sampled = SampledFilter::new("same", samples, case.data.step_seconds, 0).unwrap();
        let sampled = FilterBank::with_sampled(Vec::new(), vec![sampled]).unwrap();
        let trained = |bank: FilterBank| {
            let options = crate::TrainOptions {
                ridge: crate::RidgeChoice::Fixed(0.5),
                ..crate::TrainOptions::new(bank)
            };
            crate::train(&case.data, &options, &()).unwrap()
        };
        let (one, other) = (trained(case.bank.clone()), trained(sampled));
        let largest = one.weights().iter().fold(0.0, |m: f64, w| m.max(w.abs()));
        for (a, b) in one.weights().iter().zip(other.weights()) {
            assert!((a - b).abs() < 1e-4 * largest, "{a} {b}");
        }
        let bytes = other.to_bytes().unwrap();
        assert_eq!(
            betz_runtime::model::Decoder::from_bytes(&bytes).unwrap(),
            other
        );
    }
}
