//! `betz reproduce`: pages of the papers' experiments, with tiny sizes.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{done, json, refused};

/// The report of a tiny run, and its page.
fn tiny(folder: &Path, subject: &str) -> (Value, String) {
    let told = json(
        folder,
        &format!("reproduce {subject} --tiny --device cpu --out {subject}.html"),
    );
    let page = fs::read_to_string(folder.join(format!("{subject}.html"))).unwrap();
    (told, page)
}

/// The value here of a point, and its verdict.
fn answer(told: &Value, subject: &str) -> (String, Value) {
    let points = told["points"].as_array().unwrap();
    let point = points.iter().find(|p| p["subject"] == subject);
    let point = point.unwrap_or_else(|| panic!("no point {subject}: {told}"));
    (
        point["here"].as_str().unwrap().to_owned(),
        point["verdict"].clone(),
    )
}

/// The page needs no other file and no script, names the run, and gives a reason for every difference.
fn check(told: &Value, page: &str, subject: &str) {
    assert!(page.starts_with("<!doctype html>\n<!-- made by betz reproduce -->"));
    assert!(page.ends_with("</body>\n</html>\n"));
    assert!(page.len() < 300_000, "{} bytes", page.len());
    for outside in ["<script", "href=", "src=", "url(", "onload"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("This is a tiny run"));
    assert!(page.contains(&format!("betz reproduce {subject} --tiny --device cpu")));
    assert!(page.contains("no CUDA device was asked for (--device cpu)"));
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    let points = told["points"].as_array().unwrap();
    let count = |name: &str| told[name].as_u64().unwrap() as usize;
    let [reproduced, differ, unavailable] = ["reproduced", "differ", "unavailable"].map(count);
    assert_eq!(reproduced + differ + unavailable, points.len());
    assert!(reproduced > 0 && unavailable > 0, "{told}");
    assert_eq!(page.matches(">reproduced</td>").count(), reproduced);
    assert_eq!(page.matches(">differs because ").count(), differ);
    assert_eq!(page.matches(">cannot be had because ").count(), unavailable);
    for point in points {
        let why = |name: &str| point["verdict"][name].as_str().map(str::len);
        let reason = why("differs").or(why("unavailable"));
        assert!(
            point["verdict"] == "reproduced" || reason.is_some_and(|length| length > 10),
            "{point}"
        );
    }
}

#[test]
fn mining_counts_the_papers_example_and_finds_both_chains() {
    let folder = tempfile::tempdir().unwrap();
    let (told, page) = tiny(folder.path(), "mining");
    check(&told, &page, "mining");
    let worked = "occurrences of A →(5,10] B →(10,15] C among nine events";
    assert_eq!(answer(&told, worked), ("1".into(), "reproduced".into()));
    let chains = answer(&told, "Sym26: embedded chains");
    assert_eq!(chains, ("2 found by mining".into(), "reproduced".into()));
    let (_, cultures) = answer(&told, "cultures 2-1-33, 2-1-34 and 2-1-35");
    assert!(cultures["unavailable"].is_string());
}

#[test]
fn networks_corrects_the_misprinted_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (told, page) = tiny(folder.path(), "networks");
    check(&told, &page, "networks");
    let (here, verdict) = answer(&told, "22,360 nodes: coefficients");
    assert!(
        here.starts_with("400,475,649,600 = 22,360² × 801"),
        "{here}"
    );
    let why = verdict["differs"].as_str().unwrap();
    assert!(
        why.contains("22,360² × 100") && why.contains("801 windows"),
        "{why}"
    );
    assert_eq!(
        answer(&told, "pixels of a frame of 130 × 172").1,
        "reproduced"
    );
    let product = "GPU time is the steps times both kernels of Table III";
    assert_eq!(answer(&told, product).1, "reproduced");
    let (here, _) = answer(&told, "covariance over correlation");
    assert!(here.starts_with("103 to 350 ×"), "{here}");
}

#[test]
fn som_moves_the_nodes_of_the_chapter() {
    let folder = tempfile::tempdir().unwrap();
    let (told, page) = tiny(folder.path(), "som");
    check(&told, &page, "som");
    let window = answer(&told, "nodes that a rectangular window of width 5 moves");
    assert_eq!(window, ("25".into(), "reproduced".into()));
    let listing = "nodes that Listing 3.3 moves (squared distance below r²), r = 2";
    assert_eq!(answer(&told, listing), ("9".into(), "reproduced".into()));
    let one = answer(&told, "the same with r = 1");
    assert_eq!(one, ("1".into(), "reproduced".into()));
    assert_eq!(answer(&told, "learning rate").1, "reproduced");
}

#[test]
fn spiking_counts_the_spikes_of_the_ring() {
    let folder = tempfile::tempdir().unwrap();
    let (told, page) = tiny(folder.path(), "spiking");
    check(&told, &page, "spiking");
    for (neurons, count) in [
        ("1 to 3 of a ring", "4,445"),
        ("4 to 12", "4,444"),
        ("13 to 21", "4,443"),
    ] {
        let (here, verdict) = answer(&told, &format!("spikes of neurons {neurons}"));
        assert_eq!(
            (here, verdict),
            (format!("{count} to {count}"), "reproduced".into())
        );
    }
    let (here, verdict) = answer(&told, "the last 1,000 steps");
    assert_eq!(here, "250 ms");
    assert!(verdict["differs"].is_string());
}

#[test]
fn decoding_cuts_products_by_the_chapters_equations() {
    let folder = tempfile::tempdir().unwrap();
    let (told, page) = tiny(folder.path(), "decoding");
    check(&told, &page, "decoding");
    let shared = answer(&told, "the shared dimension is cut from");
    assert_eq!(shared, ("9k on".into(), "reproduced".into()));
    assert_eq!(
        answer(&told, "the leading dimension is cut from").0,
        "13k on"
    );
    let least = answer(&told, "least number of transfers (t_m = t_k = 1)");
    assert_eq!(least, ("3".into(), "reproduced".into()));
    let (_, verdict) = answer(&told, "150 neurons, single units: NRMSE");
    assert!(verdict["differs"].as_str().unwrap().contains("ranges"));
}

#[test]
fn a_page_replaces_an_earlier_one_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let som = "reproduce som --tiny --device cpu --out";
    done(folder, &format!("{som} page.html"));
    let words = done(folder, &format!("{som} page.html"));
    assert!(
        words.contains("page.html: ") && words.contains("cannot be had"),
        "{words}"
    );
    fs::write(folder.join("own.html"), "<!doctype html><p>mine").unwrap();
    for (out, code, words) in [
        ("own.html", 2, "own.html"),
        (
            "page.txt",
            2,
            "expected a file ending in .html or .htm, got page.txt",
        ),
        ("none/page.html", 2, "none"),
    ] {
        refused(folder, &format!("{som} {out}"), code, words);
    }
    assert_eq!(
        fs::read_to_string(folder.join("own.html")).unwrap(),
        "<!doctype html><p>mine"
    );
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|f| f.unwrap().file_name());
    let pages = files.filter(|name| name != "cache").count();
    assert_eq!(pages, 2, "page.html and own.html");
    refused(folder, "reproduce neither --out p.html", 2, "neither");
    refused(
        folder,
        "reproduce som --tiny --device nowhere --out p.html",
        2,
        "nowhere",
    );
    let help = done(folder, "reproduce --help");
    assert!(
        help.contains("--quick") && !help.contains("--tiny"),
        "{help}"
    );
}
