//! The page: one HTML file without scripts.

use std::fmt::Write;

use betz::Result;

use super::machine::Machine;
use super::study::{Experiment, Findings, Grid, Study, Verdict};

/// First words of every page; they tell one from somebody else's.
pub(crate) const MADE: &str = "<!doctype html>\n<!-- made by betz reproduce -->";

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;color:#26282e;max-width:60rem;margin:2rem auto;padding:0 1rem}\
h1{line-height:1.2}h2{margin-top:2.5rem;border-top:1px solid #e2e4e9;padding-top:1rem}\
table{border-collapse:collapse;margin:1rem 0;display:block;overflow-x:auto}caption{text-align:left;font-weight:600;padding:.3rem 0}\
th,td{text-align:left;vertical-align:top;padding:.25rem .8rem .25rem 0;border-bottom:1px solid #e2e4e9}\
figure{margin:1rem 0}figcaption{font-weight:600}svg{max-width:100%;height:auto}\
.reproduced{color:#00704f}.differs{color:#a64700}.unavailable{color:#5b5f6b}";

/// Numbers of points that are reproduced, that differ, and that cannot be had.
pub(super) fn counts(findings: &[Findings]) -> [usize; 3] {
    let mut counts = [0; 3];
    for answer in findings.iter().flat_map(|f| &f.answers) {
        counts[match answer.verdict {
            Verdict::Reproduced => 0,
            Verdict::Differs(_) => 1,
            Verdict::Unavailable(_) => 2,
        }] += 1;
    }
    counts
}

/// The page of a study. `size` names the sizes: `full`, `quick` or `tiny`.
///
/// # Errors
/// [`Internal`](betz::ErrorKind::Internal) if a figure cannot be drawn.
pub(super) fn write(
    study: &Study,
    findings: &[Findings],
    machine: &Machine,
    size: &str,
    seconds: f64,
) -> Result<String> {
    let mut page = format!(
        "{MADE}\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{}</h1>\n",
        escaped(study.title),
        escaped(study.title)
    );
    for source in study.sources {
        paragraph(&mut page, source);
    }
    let [reproduced, differ, unavailable] = counts(findings);
    paragraph(
        &mut page,
        &format!(
            "Of {} numbers and statements, {reproduced} are reproduced, {differ} differ for the reasons below, and {unavailable} cannot be had.",
            reproduced + differ + unavailable
        ),
    );
    if size != "full" {
        paragraph(
            &mut page,
            &format!(
                "This is a {size} run: sizes are smaller than the papers' where a section says so."
            ),
        );
    }
    let rows = machine.rows();
    let rows = rows
        .iter()
        .map(|(name, value)| vec![(*name).to_owned(), value.clone()]);
    let mut facts = Grid::new("This run", &["", ""]);
    facts.rows = rows.collect();
    facts.row(["Seconds".to_owned(), format!("{seconds:.1}")]);
    facts.row(["The papers' machines".to_owned(), study.machines.to_owned()]);
    grid(&mut page, &facts);
    for remark in study.remarks {
        paragraph(&mut page, remark);
    }
    for (experiment, findings) in study.experiments.iter().zip(findings) {
        section(&mut page, experiment, findings)?;
    }
    page.push_str("</body>\n</html>\n");
    Ok(page)
}

fn section(page: &mut String, experiment: &Experiment, findings: &Findings) -> Result<()> {
    let title = format!("{}: {}", experiment.place, experiment.title);
    // Writing to a string cannot fail.
    let _ = writeln!(page, "<h2>{}</h2>", escaped(&title));
    paragraph(page, &format!("Sizes in the paper: {}.", experiment.sizes));
    if !findings.sizes.is_empty() {
        paragraph(page, &format!("Sizes here: {}.", findings.sizes));
    }
    for figure in &findings.figures {
        let _ = writeln!(
            page,
            "<figure>\n<figcaption>{}</figcaption>\n{}</figure>",
            escaped(figure.title()),
            figure.svg()?
        );
    }
    findings.grids.iter().for_each(|table| grid(page, table));
    if experiment.points.is_empty() {
        return Ok(());
    }
    page.push_str(
        "<table>\n<tr><th>Number or statement</th><th>Paper</th><th>Here</th><th>Outcome</th></tr>\n",
    );
    for (point, answer) in experiment.points.iter().zip(&findings.answers) {
        let (class, outcome) = match &answer.verdict {
            Verdict::Reproduced => ("reproduced", "reproduced".to_owned()),
            Verdict::Differs(why) => ("differs", format!("differs because {why}")),
            Verdict::Unavailable(why) => ("unavailable", format!("cannot be had because {why}")),
        };
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"{class}\">{}</td></tr>",
            escaped(point.subject),
            escaped(point.paper),
            escaped(&answer.here),
            escaped(&outcome)
        );
    }
    page.push_str("</table>\n");
    Ok(())
}

fn paragraph(page: &mut String, text: &str) {
    let _ = writeln!(page, "<p>{}</p>", escaped(text));
}

fn grid(page: &mut String, grid: &Grid) {
    let _ = write!(
        page,
        "<table>\n<caption>{}</caption>\n",
        escaped(&grid.title)
    );
    if grid.columns.iter().any(|c| !c.is_empty()) {
        row(page, "th", &grid.columns);
    }
    grid.rows.iter().for_each(|cells| row(page, "td", cells));
    page.push_str("</table>\n");
}

fn row(page: &mut String, tag: &str, cells: &[String]) {
    page.push_str("<tr>");
    for cell in cells {
        let _ = write!(page, "<{tag}>{}</{tag}>", escaped(cell));
    }
    page.push_str("</tr>\n");
}

/// Text as HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            c => html.push(c),
        }
    }
    html
}
