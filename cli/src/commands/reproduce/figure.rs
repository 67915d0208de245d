//! Figures of the page: lines and marks over axes that may be logarithmic, and pictures of cells.

use std::fmt::Write;
use std::ops::Range;

use betz::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::chart::{self, Area, FAINT, INK, PlotResult};

/// Width and height of a plot.
const SIZE: (u32, u32) = (760, 400);
/// Height of a row of the legend.
const ENTRY: u32 = 22;
/// Side of a picture of cells.
const CELLS_SIDE: f64 = 220.0;

/// A figure of the page.
#[derive(Debug, Clone)]
pub(super) enum Figure {
    Plot(Plot),
    /// Pictures in one row.
    Cells(String, Vec<Cells>),
}

/// Lines over two axes.
#[derive(Debug, Clone)]
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
}

#[derive(Debug, Clone)]
pub(super) struct Axis {
    pub(super) name: &'static str,
    pub(super) log: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
    pub(super) style: Style,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// A line with marks, in a colour.
    Measured,
    /// A line without marks, in a colour.
    Line,
    /// Marks alone, in a colour.
    Marks,
    /// The paper's points: black crosses on a thin line.
    Paper,
}

/// A picture of coloured cells.
#[derive(Debug, Clone)]
pub(super) struct Cells {
    pub(super) title: String,
    pub(super) columns: usize,
    pub(super) colors: Vec<[u8; 3]>,
}

impl Plot {
    /// A plot whose axes are both logarithmic.
    pub(super) fn log_log(title: &str, x: &'static str, y: &'static str) -> Self {
        Self::new(title, x, y, true, true)
    }

    pub(super) fn new(
        title: &str,
        x: &'static str,
        y: &'static str,
        log_x: bool,
        log_y: bool,
    ) -> Self {
        Self {
            title: title.to_owned(),
            x: Axis {
                name: x,
                log: log_x,
            },
            y: Axis {
                name: y,
                log: log_y,
            },
            series: Vec::new(),
        }
    }

    /// Adds points; those that an axis cannot show are left out, and a series without points is none.
    pub(super) fn add(
        &mut self,
        name: impl Into<String>,
        style: Style,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) {
        let shown = |(x, y): &(f64, f64)| {
            let fits = |v: f64, axis: &Axis| v.is_finite() && (!axis.log || v > 0.0);
            fits(*x, &self.x) && fits(*y, &self.y)
        };
        let points: Vec<(f64, f64)> = points.into_iter().filter(shown).collect();
        if !points.is_empty() {
            self.series.push(Series {
                name: name.into(),
                points,
                style,
            });
        }
    }
}

impl Axis {
    fn place(&self, value: f64) -> f64 {
        if self.log { value.log10() } else { value }
    }

    /// The range of these places, with a margin.
    fn range(&self, places: impl Iterator<Item = f64>) -> Range<f64> {
        let range = chart::range(places);
        match self.log && range.end - range.start < 0.3 {
            // A logarithmic axis of one value has a tick at it.
            true => range.start - 0.5..range.end + 0.5,
            false => range,
        }
    }

    /// Places of ticks.
    fn ticks(&self, range: &Range<f64>) -> Vec<f64> {
        if !self.log {
            let step = nice_step((range.end - range.start) / 6.0);
            let first = (range.start / step).ceil() as i64;
            return (first..)
                .map(|i| i as f64 * step)
                .take_while(|t| *t <= range.end)
                .collect();
        }
        let digits: &[f64] = match range.end - range.start {
            width if width > 2.5 => &[1.0],
            _ => &[1.0, 2.0, 5.0],
        };
        let decades = range.start.floor() as i32..=range.end.ceil() as i32;
        decades
            .flat_map(|k| digits.iter().map(move |d| d.log10() + f64::from(k)))
            .filter(|t| range.contains(t))
            .collect()
    }

    fn label(&self, place: f64) -> String {
        let value = if self.log { 10_f64.powf(place) } else { place };
        let value = (value * 1e9).round() / 1e9;
        match value.abs() {
            size if size >= 1e5 || (size > 0.0 && size < 1e-3) => format!("{value:.0e}"),
            _ => ((value * 1e4).round() / 1e4 + 0.0).to_string(),
        }
    }
}

/// 1, 2 or 5 times a power of ten, not below `step`.
fn nice_step(step: f64) -> f64 {
    let decade = 10_f64.powf(step.max(1e-12).log10().floor());
    let digits = [1.0, 2.0, 5.0, 10.0];
    let digit = digits.into_iter().find(|d| d * decade >= step);
    digit.unwrap_or(10.0) * decade
}

impl Figure {
    /// The figure as SVG.
    ///
    /// # Errors
    /// [`Internal`](betz::ErrorKind::Internal) if it cannot be drawn.
    pub(super) fn svg(&self) -> Result<String> {
        match self {
            Self::Plot(plot) => {
                let height = SIZE.1 + 34 + ENTRY * plot.series.len().div_ceil(2) as u32;
                chart::svg("a figure of the page", (SIZE.0, height), |area| {
                    draw(area, plot, height)
                })
            }
            Self::Cells(_, pictures) => Ok(cells(pictures)),
        }
    }

    pub(super) fn title(&self) -> &str {
        match self {
            Self::Plot(plot) => &plot.title,
            Self::Cells(title, _) => title,
        }
    }
}

fn draw(area: &Area<'_>, plot: &Plot, height: u32) -> PlotResult {
    let (panel, legend) = area.split_vertically(SIZE.1);
    let places: Vec<Vec<(f64, f64)>> = (plot.series.iter())
        .map(|s| {
            let place = |(x, y): &(f64, f64)| (plot.x.place(*x), plot.y.place(*y));
            s.points.iter().map(place).collect()
        })
        .collect();
    let all = || places.iter().flatten();
    let (x, y) = (
        plot.x.range(all().map(|p| p.0)),
        plot.y.range(all().map(|p| p.1)),
    );
    let (x_ticks, y_ticks) = (plot.x.ticks(&x), plot.y.ticks(&y));
    let mut chart = ChartBuilder::on(&panel)
        .margin_right(24)
        .margin_left(12)
        .margin_top(12)
        .margin_bottom(4)
        .x_label_area_size(46)
        .y_label_area_size(72)
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_style(FAINT.stroke_width(1))
        .axis_desc_style(("sans-serif", 14).into_font().color(&INK))
        .x_labels(0)
        .y_labels(0)
        .x_desc(plot.x.name)
        .y_desc(plot.y.name)
        .draw()?;
    // Ticks are drawn here: an axis of powers of ten has none of its own at round numbers.
    for tick in x_ticks {
        let line = vec![(tick, y.start), (tick, y.end)];
        chart.draw_series(std::iter::once(PathElement::new(
            line,
            FAINT.stroke_width(1),
        )))?;
        let (px, py) = chart.backend_coord(&(tick, y.start));
        label(
            &panel,
            &plot.x.label(tick),
            (px, py + 8),
            HPos::Center,
            VPos::Top,
        )?;
    }
    for tick in y_ticks {
        let line = vec![(x.start, tick), (x.end, tick)];
        chart.draw_series(std::iter::once(PathElement::new(
            line,
            FAINT.stroke_width(1),
        )))?;
        let (px, py) = chart.backend_coord(&(x.start, tick));
        label(
            &panel,
            &plot.y.label(tick),
            (px - 8, py),
            HPos::Right,
            VPos::Center,
        )?;
    }
    let mut number = 0;
    for (i, (series, points)) in plot.series.iter().zip(&places).enumerate() {
        let paper = series.style == Style::Paper;
        let color = if paper { INK } else { chart::color(number) };
        number += usize::from(!paper);
        if series.style != Style::Marks {
            let width = if paper { 1 } else { 2 };
            chart.draw_series(LineSeries::new(
                points.iter().copied(),
                color.stroke_width(width),
            ))?;
        }
        match series.style {
            Style::Measured => {
                let marks = points.iter().map(|p| Circle::new(*p, 3, color.filled()));
                chart.draw_series(marks)?;
            }
            Style::Marks => {
                let marks = points.iter().map(|p| Circle::new(*p, 2, color.filled()));
                chart.draw_series(marks)?;
            }
            Style::Paper => {
                let marks = points
                    .iter()
                    .map(|p| Cross::new(*p, 5, color.stroke_width(2)));
                chart.draw_series(marks)?;
            }
            Style::Line => {}
        }
        let at = (
            84 + (i % 2) as i32 * 340,
            14 + (i / 2) as i32 * ENTRY as i32,
        );
        debug_assert!(at.1 < height as i32);
        chart::entry(&legend, color, &series.name, at)?;
    }
    Ok(())
}

/// The label of a tick.
fn label(area: &Area<'_>, words: &str, at: (i32, i32), x: HPos, y: VPos) -> PlotResult {
    let style = TextStyle::from(("sans-serif", 13).into_font())
        .color(&INK)
        .pos(Pos::new(x, y));
    area.draw(&Text::new(words.to_owned(), at, style))?;
    Ok(())
}

/// Pictures of cells in a row, each with its title below.
fn cells(pictures: &[Cells]) -> String {
    let (width, height) = (
        pictures.len() as f64 * (CELLS_SIDE + 20.0),
        CELLS_SIDE + 30.0,
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">"
    );
    for (i, picture) in pictures.iter().enumerate() {
        let left = i as f64 * (CELLS_SIDE + 20.0);
        let rows = picture.colors.len().div_ceil(picture.columns.max(1)).max(1);
        let side = CELLS_SIDE / picture.columns.max(rows).max(1) as f64;
        // Cells of one colour that follow each other in a row are one rectangle.
        for (row, colors) in picture.colors.chunks(picture.columns.max(1)).enumerate() {
            let mut from = 0;
            while from < colors.len() {
                let same = colors[from..].iter().take_while(|c| **c == colors[from]);
                let length = same.count();
                let [r, g, b] = colors[from];
                // Writing to a string cannot fail.
                let _ = write!(
                    svg,
                    "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#{r:02x}{g:02x}{b:02x}\"/>",
                    left + from as f64 * side,
                    row as f64 * side,
                    length as f64 * side + 0.3,
                    side + 0.3,
                );
                from += length;
            }
        }
        let _ = write!(
            svg,
            "<text x=\"{left:.1}\" y=\"{:.1}\" font-family=\"sans-serif\" font-size=\"14\" fill=\"#26282e\">{}</text>",
            CELLS_SIDE + 20.0,
            super::page::escaped(&picture.title)
        );
    }
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_logarithmic_axes_are_round_numbers() {
        let axis = Axis {
            name: "",
            log: true,
        };
        let labels = |range: Range<f64>| -> Vec<String> {
            axis.ticks(&range).iter().map(|t| axis.label(*t)).collect()
        };
        assert_eq!(labels(-0.1..1.1), ["1", "2", "5", "10"]);
        assert_eq!(labels(1.9..6.1), ["100", "1000", "10000", "1e5", "1e6"]);
        let linear = Axis {
            name: "",
            log: false,
        };
        let labels: Vec<String> = (linear.ticks(&(0.0..1.0)).iter())
            .map(|t| linear.label(*t))
            .collect();
        assert_eq!(labels, ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
    }

    #[test]
    fn points_that_an_axis_cannot_show_are_left_out() {
        let mut plot = Plot::log_log("title", "x", "y");
        plot.add(
            "a",
            Style::Measured,
            [(1.0, 2.0), (0.0, 3.0), (2.0, f64::NAN)],
        );
        plot.add("b", Style::Paper, [(-1.0, 2.0)]);
        assert_eq!(plot.series.len(), 1);
        assert_eq!(plot.series[0].points, [(1.0, 2.0)]);
        let svg = Figure::Plot(plot).svg().unwrap();
        assert!(
            svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
            "{svg}"
        );
        assert!(svg.contains("<circle"));
    }

    #[test]
    fn equal_cells_of_a_row_are_one_rectangle() {
        let picture = Cells {
            title: "a < b".to_owned(),
            columns: 3,
            colors: vec![
                [1, 2, 3],
                [1, 2, 3],
                [9, 9, 9],
                [0, 0, 0],
                [0, 0, 0],
                [0, 0, 0],
            ],
        };
        let svg = Figure::Cells(String::new(), vec![picture]).svg().unwrap();
        assert_eq!(svg.matches("<rect").count(), 3);
        assert!(svg.contains("#010203") && svg.contains("a &lt; b"), "{svg}");
    }
}
