//! Shared parts of all pictures: colours that the colour-blind can tell apart, axes, panels.

use std::ops::Range;
use std::path::Path;

use betz::{Error, ErrorKind, Result};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(crate) const INK: RGBColor = RGBColor(38, 40, 46);
pub(crate) const FAINT: RGBColor = RGBColor(226, 228, 233);
/// Of Okabe and Ito's palette, which stays apart in every kind of colour blindness.
pub(crate) const BLUE: RGBColor = RGBColor(0, 114, 178);
pub(crate) const ORANGE: RGBColor = RGBColor(213, 94, 0);
pub(crate) const GREEN: RGBColor = RGBColor(0, 158, 115);
pub(crate) const PURPLE: RGBColor = RGBColor(204, 121, 167);

/// Colours of numbered things: Okabe and Ito's first, then darker ones that stay apart from them.
const COLORS: [RGBColor; 12] = [
    BLUE,
    ORANGE,
    GREEN,
    PURPLE,
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    INK,
    RGBColor(120, 94, 60),
    RGBColor(0, 70, 60),
    RGBColor(110, 40, 110),
    RGBColor(150, 150, 60),
    RGBColor(140, 20, 20),
];

/// The colour of thing number `n`; after twelve they begin again.
pub(crate) const fn color(n: usize) -> RGBColor {
    COLORS[n % COLORS.len()]
}

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Chart<'a, 'b> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
pub(crate) type PlotResult<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Lets `paint` draw `size` points and writes the picture to `path`.
pub(crate) fn picture(
    path: &Path,
    size: (u32, u32),
    paint: impl FnOnce(&Area<'_>) -> PlotResult,
) -> Result<()> {
    let svg = svg(path.display(), size, paint)?;
    crate::picture::write(path, &svg)
}

/// The SVG that `paint` draws on `size` points. `name` says in an error what was drawn.
pub(crate) fn svg(
    name: impl std::fmt::Display,
    size: (u32, u32),
    paint: impl FnOnce(&Area<'_>) -> PlotResult,
) -> Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let painted = root
            .fill(&WHITE)
            .map_err(Into::into)
            .and_then(|()| paint(&root));
        painted.map_err(|e: Box<dyn std::error::Error>| {
            Error::new(ErrorKind::Internal, format!("drawing {name}: {e}"))
        })?;
    }
    Ok(svg)
}

/// Text that begins at `at`.
pub(crate) fn text(area: &Area<'_>, words: &str, at: (i32, i32), size: f64) -> PlotResult {
    let style = TextStyle::from(("sans-serif", size).into_font())
        .color(&INK)
        .pos(Pos::new(HPos::Left, VPos::Center));
    area.draw(&Text::new(words.to_owned(), at, style))?;
    Ok(())
}

/// An entry of a legend: a line of `color` and its name.
pub(crate) fn entry(area: &Area<'_>, color: RGBColor, name: &str, at: (i32, i32)) -> PlotResult {
    let (x, y) = at;
    area.draw(&PathElement::new(
        vec![(x, y), (x + 28, y)],
        color.stroke_width(3),
    ))?;
    text(area, name, (x + 36, y), 15.0)
}

/// Labels of a panel's axes.
pub(crate) struct Axes<'a> {
    pub(crate) x: Range<f64>,
    pub(crate) y: Range<f64>,
    /// Empty: no name, and little room for it.
    pub(crate) x_name: &'a str,
    pub(crate) y_name: &'a str,
}

/// Axes in `area`, with room for their names.
pub(crate) fn axes<'a, 'b>(area: &'a Area<'b>, axes: &Axes<'_>) -> PlotResult<Chart<'a, 'b>> {
    let named = !axes.x_name.is_empty();
    let (x, y) = (drawable(&axes.x), drawable(&axes.y));
    let mut chart = ChartBuilder::on(area)
        .margin_right(24)
        .margin_left(12)
        .margin_top(8)
        .margin_bottom(4)
        .x_label_area_size(if named { 46 } else { 22 })
        .y_label_area_size(72)
        .build_cartesian_2d(x, y)?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(FAINT.stroke_width(1))
        .label_style(("sans-serif", 13).into_font().color(&INK))
        .axis_desc_style(("sans-serif", 14).into_font().color(&INK))
        .x_labels(8)
        .y_labels(5)
        .x_label_formatter(&|v| tick_label(*v))
        .y_label_formatter(&|v| tick_label(*v))
        .y_desc(axes.y_name);
    if named {
        mesh.x_desc(axes.x_name);
    }
    mesh.draw()?;
    Ok(chart)
}

/// `2`, not `2.0`; a rounded 0 has no sign.
fn tick_label(value: f64) -> String {
    let rounded = (value * 1e6).round() / 1e6;
    let short = if rounded == 0.0 && value.abs() > 1e-9 {
        value
    } else {
        rounded + 0.0
    };
    if short.abs() >= 1e6 || (short != 0.0 && short.abs() < 1e-3) {
        format!("{short:e}")
    } else {
        short.to_string()
    }
}

/// `range`, or one around it that has ticks: where its ends are one number but for rounding, looking for
/// ticks between them never ends.
fn drawable(range: &Range<f64>) -> Range<f64> {
    let (start, end) = (range.start, range.end);
    if !(start.is_finite() && end.is_finite()) {
        return 0.0..1.0;
    }
    let least = 1e-6 * start.abs().max(end.abs()).max(1e-6);
    if (end - start).abs() >= least {
        return start..end;
    }
    start..if end < start {
        start - least
    } else {
        start + least
    }
}

/// Name of an axis whose rows are things called `thing`: `unit`, or `unit (60 of 150)` if not all are drawn.
pub(crate) fn rows_name(thing: &str, drawn: usize, of: usize) -> String {
    match drawn < of {
        true => format!("{thing} ({drawn} of {of})"),
        false => thing.to_owned(),
    }
}

/// The range of finite `values`, with a margin; 0 to 1 without any.
pub(crate) fn range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) = values
        .filter(|v| v.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
            (l.min(v), h.max(v))
        });
    if low > high {
        return 0.0..1.0;
    }
    let margin = 0.05 * (high - low).max(1e-6 * high.abs()).max(1e-9);
    low - margin..high + margin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_labelled_shortly() {
        for (value, text) in [
            (2.0, "2"),
            (-0.0, "0"),
            (0.1 + 0.2, "0.3"),
            (-1e-17, "0"),
            (2e6, "2e6"),
        ] {
            assert_eq!(tick_label(value), text);
        }
        assert_eq!(tick_label(2.5e-7), "2.5e-7");
    }

    #[test]
    fn rows_that_are_not_drawn_are_told() {
        assert_eq!(rows_name("unit", 60, 150), "unit (60 of 150)");
        assert_eq!(rows_name("unit", 60, 60), "unit");
    }

    #[test]
    fn colours_of_numbers_differ() {
        for a in 0..12 {
            assert!((0..a).all(|b| color(a) != color(b)), "{a}");
        }
        assert_eq!(color(12), color(0));
    }

    #[test]
    fn every_range_can_be_drawn() {
        assert_eq!(drawable(&(0.0..2.0)), 0.0..2.0);
        assert_eq!(drawable(&(5.0..-1.0)), 5.0..-1.0);
        assert_eq!(drawable(&(f64::NAN..1.0)), 0.0..1.0);
        for (start, end) in [(0.0, 0.0), (0.0, 5e-324), (7.0, 7.0), (1e15, 1e15 + 1.0)] {
            let wide = drawable(&(start..end));
            assert!(wide.end - wide.start > 1e-7 * start.max(1e-6), "{wide:?}");
        }
        assert_eq!(range([f64::NAN].into_iter()), 0.0..1.0);
    }
}
