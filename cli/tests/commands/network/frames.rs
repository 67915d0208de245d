//! Images, pages of a TIFF and videos as input.

use super::*;

const HOW: &str = "--window 40 --step 10 --threshold 0.5";

/// The signal as frames of 3 × 3 bytes.
fn bytes() -> Vec<u8> {
    signal().iter().map(|v| (v * 40.0 + 128.0) as u8).collect()
}

/// The network of `input` in `folder`.
fn network(folder: &Path, input: &str) -> NetworkFile {
    done(
        folder,
        &format!("compute {input} --out net.npz {HOW} --force"),
    );
    NetworkFile::read(&folder.join("net.npz")).unwrap()
}

/// The network of the same frames as an array.
fn expected(folder: &Path) -> NetworkFile {
    let bytes = bytes();
    let array = Array::U8(&[SAMPLES, 3, 3], &bytes);
    write(&folder.join("video.npz"), &[("signal", array)]).unwrap();
    network(folder, "video.npz")
}

fn assert_alike(found: &NetworkFile, expected: &NetworkFile) {
    assert!(!edges(expected).is_empty());
    assert_eq!(edges(found), edges(expected));
    assert_eq!(found.positions, expected.positions);
}

fn assert_refused(folder: &Path, asked: &str, words: &[&str]) {
    let output = betz(folder, &format!("compute {asked} --out no.npz {HOW}"));
    let said = String::from_utf8_lossy(&output.stderr);
    for word in words {
        assert!(
            said.contains(word) && !output.status.success(),
            "{asked}: expected {word:?} in {said}"
        );
    }
    assert!(!folder.join("no.npz").exists());
}

fn png(path: &Path, colour: png::ColorType, bytes: &[u8]) {
    let mut encoder = png::Encoder::new(fs::File::create(path).unwrap(), 3, 3);
    encoder.set_color(colour);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(bytes).unwrap();
}

#[test]
fn images_and_pages_are_the_frames_of_an_array() {
    use tiff::encoder::{TiffEncoder, colortype::Gray8};
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let array = expected(folder);
    for name in ["grey", "colour"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    let mut pages = TiffEncoder::new(fs::File::create(folder.join("stack.tif")).unwrap()).unwrap();
    for (t, frame) in bytes().chunks_exact(NODES).enumerate() {
        png(
            &folder.join(format!("grey/f{t}.png")),
            png::ColorType::Grayscale,
            frame,
        );
        // The signal is in green; red is constant, and blue the opposite.
        let colour: Vec<u8> = frame.iter().flat_map(|v| [7, *v, 255 - *v]).collect();
        png(
            &folder.join(format!("colour/f{t}.png")),
            png::ColorType::Rgb,
            &colour,
        );
        pages.write_image::<Gray8>(3, 3, frame).unwrap();
    }
    drop(pages);
    for input in [
        "grey",
        "stack.tif",
        "colour --channel green",
        "colour --channel blue",
    ] {
        assert_alike(&network(folder, input), &array);
    }
    let red = betz(
        folder,
        &format!("compute colour --channel red --out red.npz {HOW}"),
    );
    assert!(red.status.success());
    let red = NetworkFile::read(&folder.join("red.npz")).unwrap();
    assert_eq!(red.network.edges(), 0);
    // The rectangle has the nodes that a list of them has, and their places.
    let part = network(folder, "stack.tif --region 1,0,2,3");
    let listed = network(folder, "stack.tif --nodes 1,2,4,5,7,8");
    assert_alike(&part, &listed);
    let mean = network(folder, "stack.tif --downsample 3");
    assert_eq!((mean.network.nodes(), mean.network.edges()), (1, 0));
    assert_eq!(mean.positions.unwrap().values, [1.0, 1.0]);
    for (asked, words) in [
        ("grey --channel hue", &["--channel", "hue"][..]),
        ("grey --region 2,0,2,3", &["--region", "3 × 3", "x 2"]),
        (
            "grey --region 2,0,2",
            &["--region", "x, y, width and height"],
        ),
        ("grey --downsample 4", &["--downsample", "at most 3"]),
        ("grey --downsample 0", &["--downsample"]),
        ("grey --bin 5ms", &["--bin"]),
    ] {
        assert_refused(folder, asked, words);
    }
    prepared(folder);
    for option in ["--region 0,0,1,1", "--channel grey", "--downsample 2"] {
        let name = option.split(' ').next().unwrap_or(option);
        assert_refused(
            folder,
            &format!("bare.npz {option}"),
            &[name, "expected frames"],
        );
    }
    fs::write(folder.join("grey/f240.png"), "no image").unwrap();
    assert_refused(folder, "grey", &["f240.png", "PNG"]);
}

#[test]
fn hue_is_read_as_phases() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Colours of full strength turn round the hues: two nodes together, one the other way round.
    let colour = |hue: f64| -> [u8; 3] {
        [0.0, 4.0, 2.0].map(|shift| {
            let sixth = (hue * 6.0 + shift).rem_euclid(6.0);
            (255.0 * ((sixth - 3.0).abs() - 1.0).clamp(0.0, 1.0)).round() as u8
        })
    };
    let frames: Vec<u8> = (0..60)
        .flat_map(|t| {
            let turn = f64::from(t) / 20.0;
            [turn, turn + 0.25, -turn].map(colour).concat()
        })
        .collect();
    let array = Array::U8(&[60, 1, 3, 3], &frames);
    write(&folder.join("hue.npz"), &[("signal", array)]).unwrap();
    let how = "--window 60 --step 60 --threshold 0.9 --channel hue";
    let output = betz(
        folder,
        &format!("compute hue.npz --out plv.npz {how} --measure plv"),
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("hue"), "{said}");
    let file = NetworkFile::read(&folder.join("plv.npz")).unwrap();
    let found = edges(&file);
    assert_eq!(found.keys().collect::<Vec<_>>(), [&(0, 0, 1)]);
    // Pearson's correlation takes the step at red for a change, and Betz says so.
    let output = betz(folder, &format!("compute hue.npz --out r.npz {how}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("hue is an angle"), "{said}");
    assert_eq!(
        edges(&NetworkFile::read(&folder.join("r.npz")).unwrap()).len(),
        0
    );
}

/// A program `ffmpeg` that answers as ffmpeg does, with the bytes of `video.raw`.
#[cfg(unix)]
fn fake_ffmpeg(folder: &Path, script: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("bin/ffmpeg");
    fs::create_dir_all(folder.join("bin")).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(unix)]
#[test]
fn videos_are_decoded_by_ffmpeg() {
    const HEADER: &str = r"*yuv4mpegpipe*) printf 'YUV4MPEG2 W3 H3 F10:1 Ip A1:1 Cmono\nFRAME\n'; head -c 9 video.raw;;";
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let array = expected(folder);
    fs::write(folder.join("video.raw"), bytes()).unwrap();
    fs::write(folder.join("v.mp4"), "").unwrap();
    let run = |arguments: &str| {
        program::command(folder, &format!("network {arguments}"))
            .env("PATH", format!("{}/bin:/usr/bin:/bin", folder.display()))
            .output()
            .unwrap()
    };
    fake_ffmpeg(
        folder,
        &format!(
            "echo \"$*\" >> asked.txt\ncase \"$*\" in\n{HEADER}\n*gray*) cat video.raw;;\n*) exit 3;;\nesac"
        ),
    );
    // The rate is the video's: 4 s are 40 frames.
    let output = run("compute v.mp4 --out net.npz --window 4s --step 1s --threshold 0.5 --force");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let video = NetworkFile::read(&folder.join("net.npz")).unwrap();
    assert_alike(&video, &array);
    assert_eq!(video.seconds(1), Some(1.0));
    let asked = fs::read_to_string(folder.join("asked.txt")).unwrap();
    assert!(asked.lines().all(|line| line.contains("-i file:v.mp4")));
    let refused = |words: &[&str]| {
        let output = run(&format!("compute v.mp4 --out no.npz {HOW}"));
        let said = String::from_utf8_lossy(&output.stderr);
        for word in words {
            assert!(
                said.contains(word) && !output.status.success(),
                "expected {word:?} in {said}"
            );
        }
        assert!(!folder.join("no.npz").exists());
    };
    fake_ffmpeg(
        folder,
        &format!("case \"$*\" in\n{HEADER}\n*) head -c 13 video.raw;;\nesac"),
    );
    refused(&["v.mp4", "frame 1", "3 × 3 pixels", "got 4 bytes"]);
    fake_ffmpeg(folder, "echo 'moov atom not found' >&2; exit 1");
    refused(&["v.mp4", "moov atom not found"]);
    fake_ffmpeg(folder, "echo hello");
    refused(&["v.mp4", "hello"]);
    fake_ffmpeg(
        folder,
        &format!("case \"$*\" in\n{HEADER}\n*) exit 0;;\nesac"),
    );
    refused(&["v.mp4", "expected a frame"]);
}

#[test]
fn a_video_without_ffmpeg_is_refused_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("v.avi"), "").unwrap();
    let output = program::command(
        folder.path(),
        &format!("network compute v.avi --out no.npz {HOW}"),
    )
    .env("PATH", folder.path())
    .output()
    .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("ffmpeg") && said.contains("folder of images"),
        "{said}"
    );
}
