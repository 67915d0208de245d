//! Labels: a class for every step, or none.

use super::{Dataset, OutputInfo, Segment};
use betz_base::error::{Error, ErrorKind, Result};

/// Least number of labelled steps of a class.
pub const LEAST_LABELLED: usize = 30;

/// Marks a step without a label.
pub const UNLABELLED: i32 = -1;

/// A class for every step of a [`Dataset`], or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels {
    /// Name of each class.
    pub names: Vec<String>,
    /// Index of the class of each step, or [`UNLABELLED`].
    pub of_step: Vec<i32>,
}

/// A half-open interval of time with a label.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledInterval {
    /// Start in seconds.
    pub start: f64,
    /// Stop in seconds; the interval does not include it.
    pub stop: f64,
    /// Name of the class.
    pub name: String,
}

impl Labels {
    /// Labels from whole numbers, one per step: −1 for no label, otherwise the class. The classes are the numbers that
    /// occur in segments, ascending; their names are the numbers in decimal.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a number inside a segment that is not whole, below −1 or above a million.
    pub fn from_numbers(numbers: &[f32], data: &Dataset) -> Result<Self> {
        let inside = |segment: &Segment| segment.start as usize..segment.stop as usize;
        let steps: Vec<usize> = data.segments.iter().flat_map(inside).collect();
        for &step in &steps {
            let number = numbers[step];
            if number.fract() != 0.0 || !(-1.0..=1e6).contains(&number) {
                return Err(Error::argument(format!(
                    "labels: expected whole numbers from 0, or -1 for none, got {number} at step {step}; a column that is \
                     sampled on another clock than the model's steps is interpolated: give intervals instead"
                )));
            }
        }
        let mut classes: Vec<i32> = steps.iter().map(|&step| numbers[step] as i32).collect();
        classes.sort_unstable();
        classes.dedup();
        classes.retain(|&class| class != UNLABELLED);
        let mut of_step = vec![UNLABELLED; data.steps];
        for step in steps {
            let class = classes.binary_search(&(numbers[step] as i32));
            of_step[step] = class.map_or(UNLABELLED, |class| class as i32);
        }
        Ok(Self {
            names: classes.iter().map(ToString::to_string).collect(),
            of_step,
        })
    }

    /// Labels from intervals in seconds: a step has the label of the interval in which it begins. Classes are in the
    /// order in which their names first occur.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an interval that is empty or not finite, a name that is empty, and intervals
    /// that overlap.
    pub fn from_intervals(intervals: &[LabelledInterval], data: &Dataset) -> Result<Self> {
        let mut names: Vec<String> = Vec::new();
        let mut of_step = vec![UNLABELLED; data.steps];
        for (i, interval) in intervals.iter().enumerate() {
            let LabelledInterval { start, stop, name } = interval;
            if !(start.is_finite() && stop.is_finite() && start < stop) {
                return Err(Error::argument(format!(
                    "labels: expected intervals with start < stop, got {start} to {stop} s ({name:?}), interval {i}"
                )));
            }
            if name.trim().is_empty() {
                return Err(Error::argument(format!(
                    "labels: expected a name for every interval, got none for {start} to {stop} s, interval {i}"
                )));
            }
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let mut sorted: Vec<&LabelledInterval> = intervals.iter().collect();
        sorted.sort_by(|a, b| a.start.total_cmp(&b.start));
        if let Some(pair) = sorted.windows(2).find(|pair| pair[1].start < pair[0].stop) {
            let [a, b] = [pair[0], pair[1]];
            return Err(Error::argument(format!(
                "labels: expected intervals that do not overlap, got {:?} from {} to {} s and {:?} from {} to {} s",
                a.name, a.start, a.stop, b.name, b.start, b.stop
            )));
        }
        for interval in sorted {
            let name = names.iter().position(|name| *name == interval.name);
            let (Some(class), Ok(steps)) = (
                name,
                Dataset::steps_between(
                    data.step_seconds,
                    data.steps as i64,
                    interval.start,
                    interval.stop,
                ),
            ) else {
                continue;
            };
            of_step[steps.start as usize..steps.end.max(steps.start) as usize].fill(class as i32);
        }
        let labels = Self { names, of_step };
        Ok(labels.within(data))
    }

    /// Labels of two classes: `name` for each step for which `is_in` holds, and `not name` for the others.
    pub fn from_condition(name: &str, is_in: impl Fn(usize) -> bool, data: &Dataset) -> Self {
        let labels = Self {
            names: vec![format!("not {name}"), name.to_owned()],
            of_step: (0..data.steps).map(|step| i32::from(is_in(step))).collect(),
        };
        labels.within(data)
    }

    /// The same without labels outside the segments of `data`.
    fn within(mut self, data: &Dataset) -> Self {
        let mut at = 0;
        for segment in &data.segments {
            self.of_step[at..segment.start as usize].fill(UNLABELLED);
            at = segment.stop as usize;
        }
        self.of_step[at..].fill(UNLABELLED);
        self
    }

    /// The same labels with the classes `names` in that order; labels of other classes are left out.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] if none of `names` has a label.
    pub fn in_order(&self, names: &[&str]) -> Result<Self> {
        let position = |name: &String| names.iter().position(|n| n == name);
        let places: Vec<Option<usize>> = self.names.iter().map(position).collect();
        if places.iter().all(Option::is_none) {
            return Err(Error::mismatch(format!(
                "labels: expected some of the model's classes [{}], got [{}]",
                names.join(", "),
                self.names.join(", ")
            )));
        }
        let class = |&class: &i32| {
            let place = usize::try_from(class).ok().and_then(|class| places[class]);
            place.map_or(UNLABELLED, |place| place as i32)
        };
        Ok(Self {
            names: names.iter().map(ToString::to_string).collect(),
            of_step: self.of_step.iter().map(class).collect(),
        })
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.names.len()
    }

    /// The class of `step`, or `None` where there is no label.
    pub fn get(&self, step: usize) -> Option<usize> {
        usize::try_from(*self.of_step.get(step)?).ok()
    }

    /// Number of labelled steps of each class.
    pub fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.names.len()];
        for &class in &self.of_step {
            if let Ok(class) = usize::try_from(class) {
                counts[class] += 1;
            }
        }
        counts
    }

    /// True if a step of a segment of `data` has no label.
    pub fn are_missing(&self, data: &Dataset) -> bool {
        let labelled: usize = self.counts().iter().sum();
        labelled < data.steps_in_segments()
    }

    /// Refuses a name that comes twice.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`].
    pub fn check_names(&self) -> Result<()> {
        if let Some(twice) =
            (1..self.names.len()).find(|&i| self.names[..i].contains(&self.names[i]))
        {
            return Err(Error::argument(format!(
                "labels: expected different names of classes, got {:?} twice",
                self.names[twice]
            )));
        }
        Ok(())
    }

    /// Refuses labels that cannot be trained on.
    ///
    /// # Errors
    /// [`ErrorKind::InsufficientData`] for fewer than two classes, and for a class with fewer than `least` steps
    /// (usually [`LEAST_LABELLED`]); [`ErrorKind::InvalidArgument`] for a name that comes twice.
    pub fn check(&self, least: usize) -> Result<()> {
        self.check_names()?;
        let counts = self.counts();
        let occurring: Vec<&String> = (self.names.iter().zip(&counts))
            .filter(|(_, count)| **count > 0)
            .map(|(name, _)| name)
            .collect();
        if occurring.len() < 2 {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "labels: expected at least two classes inside segments, got {}",
                    match occurring.first() {
                        Some(name) => format!("only {name:?}"),
                        None => "no label".to_owned(),
                    }
                ),
            ));
        }
        for (name, &count) in self.names.iter().zip(&counts) {
            if count < least {
                return Err(Error::new(
                    ErrorKind::InsufficientData,
                    format!(
                        "labels: expected at least {least} labelled steps of every class, got {count} of {name:?}; \
                         label more, or leave the class out"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// `data` with one output per class in place of its own: 1 where a step has the label, 0 elsewhere.
    #[must_use]
    pub fn indicators(&self, data: &Dataset) -> Dataset {
        let classes = self.names.len();
        let mut behavior = vec![0.0; data.steps * classes];
        for step in 0..data.steps {
            if let Some(class) = self.get(step) {
                behavior[step * classes + class] = 1.0;
            }
        }
        let output = |name: &String| OutputInfo {
            name: name.clone(),
            unit: "probability".to_owned(),
        };
        Dataset {
            outputs: self.names.iter().map(output).collect(),
            behavior,
            channel_names: data.channel_names.clone(),
            spikes: data.spikes.clone(),
            segments: data.segments.clone(),
            ..*data
        }
    }

    /// Runs of labelled steps inside the segments of `data`, ascending.
    pub fn runs(&self, data: &Dataset) -> Vec<Segment> {
        let mut runs: Vec<Segment> = Vec::new();
        for segment in &data.segments {
            for step in segment.start..segment.stop {
                if self.get(step as usize).is_none() {
                    continue;
                }
                match runs.last_mut() {
                    Some(run) if run.stop == step && step > segment.start => run.stop += 1,
                    _ => runs.push(Segment {
                        start: step,
                        stop: step + 1,
                    }),
                }
            }
        }
        runs
    }
}

/// Intervals from text with one `start,stop,name` per line, times in seconds. A first line without numbers is a
/// heading; empty lines and lines that begin with `#` are ignored.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] naming the line.
pub fn intervals_from_csv(text: &str) -> Result<Vec<LabelledInterval>> {
    let mut intervals = Vec::new();
    let mut is_first = true;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim().trim_start_matches('\u{feff}');
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut fields = line.splitn(3, ',').map(str::trim);
        let (start, stop, name) = (fields.next(), fields.next(), fields.next());
        let seconds = |field: Option<&str>| field.and_then(|field| field.parse::<f64>().ok());
        match (seconds(start), seconds(stop), name) {
            (Some(start), Some(stop), Some(name)) => intervals.push(LabelledInterval {
                start,
                stop,
                name: name.trim_matches('"').to_owned(),
            }),
            _ if is_first => {}
            _ => {
                return Err(Error::argument(format!(
                    "labels: expected `start,stop,name` with times in seconds, got {line:?} in line {}",
                    number + 1
                )));
            }
        }
        is_first = false;
    }
    Ok(intervals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spikes;

    fn data(segments: &[(i64, i64)]) -> Dataset {
        Dataset {
            step_seconds: 0.1,
            steps: 100,
            channel_names: vec!["a".into()],
            spikes: Spikes::default(),
            segments: segments
                .iter()
                .map(|&(start, stop)| Segment { start, stop })
                .collect(),
            outputs: Vec::new(),
            behavior: Vec::new(),
        }
    }

    fn interval(start: f64, stop: f64, name: &str) -> LabelledInterval {
        LabelledInterval {
            start,
            stop,
            name: name.into(),
        }
    }

    #[test]
    fn intervals_are_half_open_and_stay_inside_segments() {
        let data = data(&[(0, 40), (50, 100)]);
        let intervals = [
            interval(3.0, 6.0, "go"),
            interval(0.0, 3.0, "rest"),
            interval(6.0, 20.0, "go"),
        ];
        let labels = Labels::from_intervals(&intervals, &data).unwrap();
        assert_eq!(labels.names, ["go", "rest"]);
        assert_eq!(labels.counts(), [60, 30]);
        assert_eq!(
            (labels.get(29), labels.get(30), labels.get(40)),
            (Some(1), Some(0), None)
        );
        labels.check(LEAST_LABELLED).unwrap();
        let runs = labels.runs(&data);
        assert_eq!(
            runs.iter().map(|r| (r.start, r.stop)).collect::<Vec<_>>(),
            [(0, 40), (50, 100)]
        );
    }

    #[test]
    fn what_cannot_be_labels_is_refused_by_name() {
        let data = data(&[(0, 100)]);
        let refusals = [
            (
                vec![interval(0.0, 5.0, "a"), interval(4.9, 10.0, "b")],
                "overlap",
            ),
            (vec![interval(5.0, 5.0, "a")], "start < stop"),
            (vec![interval(0.0, f64::NAN, "a")], "start < stop"),
            (vec![interval(0.0, 1.0, " ")], "a name for every interval"),
        ];
        for (intervals, part) in refusals {
            let error = Labels::from_intervals(&intervals, &data).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
        let few = [interval(0.0, 2.9, "a"), interval(3.0, 9.0, "b")];
        let error = Labels::from_intervals(&few, &data)
            .unwrap()
            .check(LEAST_LABELLED)
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("at least 30 labelled steps of every class, got 29 of \"a\""),
            "{error}"
        );
        let one = [interval(0.0, 9.0, "a")];
        let error = Labels::from_intervals(&one, &data)
            .unwrap()
            .check(LEAST_LABELLED)
            .unwrap_err();
        assert!(error.to_string().contains("only \"a\""), "{error}");
        let mut twice = Labels::from_condition("a", |step| step < 50, &data);
        twice.names[0] = "a".into();
        assert!(
            twice
                .check(LEAST_LABELLED)
                .unwrap_err()
                .to_string()
                .contains("\"a\" twice")
        );
        let mut numbers = vec![0.0; 100];
        numbers[7] = 0.5;
        let error = Labels::from_numbers(&numbers, &data).unwrap_err();
        assert!(error.to_string().contains("got 0.5 at step 7"), "{error}");
    }

    #[test]
    fn numbers_are_classes_and_minus_one_is_none() {
        let data = data(&[(10, 100)]);
        let numbers: Vec<f32> = (0..100).map(|i| [-1.0, 3.0, 7.0][i % 3]).collect();
        let labels = Labels::from_numbers(&numbers, &data).unwrap();
        assert_eq!(labels.names, ["3", "7"]);
        assert_eq!(labels.counts(), [30, 30]);
        assert!(labels.are_missing(&data) && labels.get(1).is_none());
        let indicators = labels.indicators(&data);
        assert_eq!(&indicators.behavior[20..26], [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
        assert_eq!(indicators.outputs[1].name, "7");
    }

    #[test]
    fn lines_of_intervals() {
        let text = "start,stop,name\n0, 1.5, rest\n\n# comment\n1.5,2,\"go, left\"\n";
        let intervals = intervals_from_csv(text).unwrap();
        assert_eq!(
            intervals,
            [interval(0.0, 1.5, "rest"), interval(1.5, 2.0, "go, left")]
        );
        let error = intervals_from_csv("0,1,a\n1,x,b").unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}
