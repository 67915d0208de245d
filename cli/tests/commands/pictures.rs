//! Pictures say what they leave out.

use std::fs;
use std::path::Path;

use crate::fixtures;
use crate::program::{done, json, refused};

fn svg(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn a_raster_of_some_channels_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    json(folder, "simulate --out many.npz --neurons 110 --seconds 2");
    done(folder, "info many.npz --picture many.svg");
    assert!(svg(folder, "many.svg").contains("channel (100 of 110)"));
    fixtures::population(folder);
    done(folder, "info test.npz --picture info.svg");
    let info = svg(folder, "info.svg");
    assert!(
        info.contains("channel\n") && !info.contains("channel ("),
        "all are drawn"
    );
}

#[test]
fn one_trial_has_a_distribution_of_errors_in_place_of_trials() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::trained(folder);
    done(folder, "evaluate model.betz test.npz --picture one.svg");
    let one = svg(folder, "one.svg");
    assert!(one.contains("steps (one trial)") && !one.contains("R² (−1 or more)"));
}

#[test]
fn eight_populations_have_eight_colours() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    json(
        folder,
        "simulate --model pd14 --scale 0.01 --seconds 0.2 --picture pd14.svg",
    );
    let picture = svg(folder, "pd14.svg");
    // The legend's lines, 3 wide, one per population.
    let colours: std::collections::BTreeSet<&str> = picture
        .split("<polyline")
        .skip(1)
        .filter(|line| line.contains("stroke-width=\"3\""))
        .filter_map(|line| line.split("stroke=\"").nth(1)?.split('"').next())
        .collect();
    assert_eq!(colours.len(), 8, "{colours:?}");
}

#[test]
fn a_picture_is_png_or_pdf_by_its_ending() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fixtures::population(folder);
    done(folder, "info test.npz --picture info.svg");
    let drawn = svg(folder, "info.svg");
    let side = |name: &str| -> u32 {
        let value = drawn.split(&format!("{name}=\"")).nth(1).unwrap();
        value.split('"').next().unwrap().parse().unwrap()
    };
    let (width, height) = (side("width"), side("height"));
    // The second time, each replaces its earlier result.
    for _ in 0..2 {
        done(folder, "info test.npz --picture info.png");
        done(folder, "info test.npz --picture info.PDF");
    }

    let file = fs::File::open(folder.join("info.png")).unwrap();
    let mut reader = png::Decoder::new(std::io::BufReader::new(file))
        .read_info()
        .unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.height), (2 * width, 2 * height));
    // The largest text is drawn: between its first and its last line there are dark pixels.
    let text = drawn.split("<text").nth(1).unwrap();
    let at = |name: &str| -> f64 {
        let value = text.split(&format!(" {name}=\"")).nth(1).unwrap();
        value.split('"').next().unwrap().parse().unwrap()
    };
    let (x, y) = (2 * at("x") as usize, 2 * at("y") as usize);
    let near = |row: usize, column: usize| row.abs_diff(y) < 60 && column.abs_diff(x) < 300;
    let row_bytes = 3 * info.width as usize;
    let dark = pixels
        .chunks_exact(row_bytes)
        .enumerate()
        .flat_map(|(row, line)| {
            line.chunks_exact(3)
                .enumerate()
                .filter(move |(column, p)| near(row, *column) && p[0] < 100)
        });
    assert!(dark.count() > 50, "no text near {x}, {y}");

    let pdf = fs::read(folder.join("info.PDF")).unwrap();
    let text = String::from_utf8_lossy(&pdf);
    assert!(text.starts_with("%PDF-1.") && text.trim_end().ends_with("%%EOF"));
    let box_of = format!(
        "/MediaBox[0 0 {} {}]",
        f64::from(width) * 0.75,
        f64::from(height) * 0.75
    );
    assert!(text.contains(&box_of), "expected {box_of}");
    assert!(
        text.contains("DejaVuSans") && text.contains("/Count 1"),
        "a page with its font"
    );

    for (file, start) in [
        ("theirs.png", &b"\x89PNG\r\n\x1a\n"[..]),
        ("theirs.pdf", b"%PDF-1.7\n"),
    ] {
        fs::write(folder.join(file), start).unwrap();
        refused(folder, &format!("info test.npz --picture {file}"), 2, file);
        assert_eq!(fs::read(folder.join(file)).unwrap(), start);
    }
    refused(
        folder,
        "look test.npz --picture x.jpg",
        2,
        "expected a file ending in .svg or .png or .pdf, got x.jpg",
    );
}
