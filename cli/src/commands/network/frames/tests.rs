use std::num::NonZeroUsize;

use super::super::args::{InputArgs, Rectangle, Region};
use super::*;

/// A view by the options' values.
fn view(channel: Channel, region: Option<[usize; 4]>, block: usize) -> View {
    View::of(&InputArgs {
        signal: "signal".to_owned(),
        sample_seconds: None,
        bin: None,
        frames: None,
        nodes: None,
        region: region.map(|[x, y, width, height]| {
            Region::Rectangle(Rectangle {
                x,
                y,
                width,
                height,
            })
        }),
        channel: Some(channel),
        downsample: NonZeroUsize::new(block),
    })
}

fn whole() -> View {
    view(Channel::Grey, None, 1)
}

fn png(path: &Path, (width, height): (u32, u32), colour: ::png::ColorType, bytes: &[u8]) {
    let depth = if bytes.len() == (width * height) as usize * colour.samples() {
        ::png::BitDepth::Eight
    } else {
        ::png::BitDepth::Sixteen
    };
    let mut encoder = ::png::Encoder::new(fs::File::create(path).unwrap(), width, height);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(bytes).unwrap();
}

/// A bitmap of 24 bits from rows of (blue, green, red), the bottom row first.
fn bmp(width: i32, height: i32, bits: u16, rest: &[u8]) -> Vec<u8> {
    let mut file = b"BM".to_vec();
    let palette = if bits == 8 { 1024 } else { 0 };
    for word in [0, 0, 54 + palette, 40] {
        file.extend(u32::to_le_bytes(word));
    }
    file.extend(width.to_le_bytes());
    file.extend(height.to_le_bytes());
    file.extend(1_u16.to_le_bytes());
    file.extend(bits.to_le_bytes());
    file.extend([0; 24]);
    file.extend_from_slice(rest);
    file
}

#[test]
fn images_come_in_the_order_of_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    for (name, grey) in [("f10.pgm", 3), ("f9.pgm", 2), ("f1.PGM", 1)] {
        let file = [b"P5 # a comment\n2 1\n255\n".as_slice(), &[grey, 0]].concat();
        fs::write(folder.path().join(name), file).unwrap();
    }
    fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    let read = |folder: &tempfile::TempDir| super::read(folder.path(), whole());
    let pixels = read(&folder).unwrap();
    assert_eq!(pixels.samples.shape, [3, 2]);
    assert_eq!(pixels.samples.values, Values::U8(vec![1, 0, 2, 0, 3, 0]));
    assert_eq!(pixels.positions.values, [0.0, 0.0, 1.0, 0.0]);
    fs::write(
        folder.path().join("f11.pgm"),
        b"P5 2 1 65535\n\x01\x02\x03\x04",
    )
    .unwrap();
    let error = read(&folder).err().unwrap();
    for part in ["f11.pgm", "frame 3", "of 8 bits", "of 16 bits"] {
        assert!(error.message().contains(part), "{part}: {error}");
    }
    let one = tempfile::tempdir().unwrap();
    assert!(read(&one).is_err());
    fs::write(one.path().join("f.pgm"), b"P5 2 1 65535\n\x01\x02\x03\x04").unwrap();
    let pixels = read(&one).unwrap();
    assert_eq!(pixels.samples.values, Values::U16(vec![0x102, 0x304]));
    for wrong in [
        "",
        "P2 1 1 255\n1",
        "P5 2 2 255\n123",
        "P6 1 1 255\n12",
        "P5 2 x",
        "P5 0 1 255\n",
        "P5 99999999999 99999999999 255\n",
    ] {
        fs::write(one.path().join("f.pgm"), wrong).unwrap();
        assert!(read(&one).is_err(), "{wrong}");
    }
    fs::write(one.path().join("f.png"), "").unwrap();
    let error = read(&one).err().unwrap();
    assert!(error.message().contains("one format"), "{error}");
}

#[test]
fn raw_frames_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("video.raw");
    fs::write(&path, [1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    assert_eq!(raw(&path, (1, 4), whole()).unwrap().samples.shape, [2, 4]);
    assert!(raw(&path, (1, 3), whole()).is_err());
    assert!(raw(&path, (usize::MAX, 2), whole()).is_err());
}

#[test]
fn png_images_have_any_depth_and_colour() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.png");
    let values = |channel| {
        let pixels = read(&path, view(channel, None, 1)).unwrap();
        pixels.samples.values
    };
    png(&path, (2, 1), ::png::ColorType::Grayscale, &[7, 9]);
    assert_eq!(values(Channel::Grey), Values::U8(vec![7, 9]));
    png(&path, (2, 1), ::png::ColorType::Grayscale, &[1, 2, 3, 4]);
    assert_eq!(values(Channel::Grey), Values::U16(vec![0x102, 0x304]));
    png(
        &path,
        (2, 1),
        ::png::ColorType::GrayscaleAlpha,
        &[7, 0, 9, 1],
    );
    assert_eq!(values(Channel::Grey), Values::U8(vec![7, 9]));
    png(
        &path,
        (2, 1),
        ::png::ColorType::Rgba,
        &[10, 20, 30, 255, 0, 0, 200, 255],
    );
    assert_eq!(values(Channel::Red), Values::U8(vec![10, 0]));
    assert_eq!(values(Channel::Green), Values::U8(vec![20, 0]));
    assert_eq!(values(Channel::Blue), Values::U8(vec![30, 200]));
    // 2.99 + 11.74 + 3.42, and 22.8.
    assert_eq!(values(Channel::Grey), Values::F32(vec![18.15, 22.8]));
    for cut in [0, 8, 40] {
        let file = fs::read(&path).unwrap();
        let short = folder.path().join("short.png");
        fs::write(&short, &file[..cut]).unwrap();
        let error = read(&short, whole()).err().unwrap();
        assert!(error.message().contains("short.png"), "{error}");
    }
}

#[test]
fn pages_of_a_tiff_are_frames() {
    use ::tiff::encoder::{TiffEncoder, colortype};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stack.TIF");
    let write = |pages: &[[u16; 6]]| {
        let mut encoder = TiffEncoder::new(fs::File::create(&path).unwrap()).unwrap();
        for page in pages {
            encoder
                .write_image::<colortype::Gray16>(3, 2, page)
                .unwrap();
        }
    };
    write(&[[1, 2, 3, 4, 5, 60_000], [7, 8, 9, 10, 11, 12]]);
    let pixels = read(&path, whole()).unwrap();
    assert_eq!(pixels.samples.shape, [2, 6]);
    let all = vec![1, 2, 3, 4, 5, 60_000, 7, 8, 9, 10, 11, 12];
    assert_eq!(pixels.samples.values, Values::U16(all));
    let part = read(&path, view(Channel::Grey, Some([1, 0, 2, 2]), 1)).unwrap();
    let right = vec![2, 3, 5, 60_000, 8, 9, 11, 12];
    assert_eq!(part.samples.values, Values::U16(right));
    assert_eq!(
        part.positions.values,
        [1.0, 0.0, 2.0, 0.0, 1.0, 1.0, 2.0, 1.0]
    );
    let file = fs::read(&path).unwrap();
    for cut in 0..file.len() {
        fs::write(&path, &file[..cut]).unwrap();
        // A part is refused, or has fewer pages; nothing panics.
        if let Ok(pixels) = read(&path, whole()) {
            assert!(pixels.samples.shape[0] <= 2);
        }
    }
    // A page of another size is named.
    let mut encoder = TiffEncoder::new(fs::File::create(&path).unwrap()).unwrap();
    encoder
        .write_image::<colortype::Gray8>(3, 2, &[0; 6])
        .unwrap();
    encoder
        .write_image::<colortype::Gray8>(2, 2, &[0; 4])
        .unwrap();
    drop(encoder);
    let error = read(&path, whole()).err().unwrap();
    for part in ["stack.TIF", "page 1", "frame 1", "3 × 2", "2 × 2"] {
        assert!(error.message().contains(part), "{part}: {error}");
    }
    let mut encoder = TiffEncoder::new(fs::File::create(&path).unwrap()).unwrap();
    encoder
        .write_image::<colortype::RGB8>(1, 1, &[1, 2, 3])
        .unwrap();
    encoder
        .write_image::<colortype::RGB8>(1, 1, &[4, 5, 6])
        .unwrap();
    drop(encoder);
    let green = read(&path, view(Channel::Green, None, 1)).unwrap();
    assert_eq!(green.samples.values, Values::U8(vec![2, 5]));
}

#[test]
fn bitmaps_have_their_top_row_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.bmp");
    let red = || read(&path, view(Channel::Red, None, 1)).unwrap().samples;
    // Two rows of a pixel, each filled up to four bytes.
    let rows = [1, 2, 3, 0, 4, 5, 6, 0];
    fs::write(&path, bmp(1, 2, 24, &rows)).unwrap();
    assert_eq!(red().values, Values::U8(vec![6, 3]));
    fs::write(&path, bmp(1, -2, 24, &rows)).unwrap();
    assert_eq!(red().values, Values::U8(vec![3, 6]));
    fs::write(&path, bmp(2, 1, 32, &[1, 2, 3, 0, 4, 5, 6, 0])).unwrap();
    assert_eq!(red().values, Values::U8(vec![3, 6]));
    let mut greys: Vec<u8> = (0..=255).flat_map(|v| [v, v, v, 0]).collect();
    greys.extend([40, 50, 0, 0]);
    fs::write(&path, bmp(2, 1, 8, &greys)).unwrap();
    let grey = read(&path, whole()).unwrap().samples;
    assert_eq!(grey.values, Values::U8(vec![40, 50]));
    for wrong in [
        bmp(1, 2, 24, &rows[..7]),
        bmp(1, 2, 16, &rows),
        bmp(0, 2, 24, &rows),
        bmp(i32::MAX, i32::MIN, 32, &rows),
        bmp(1, 2, 24, &rows)[..50].to_vec(),
        Vec::new(),
    ] {
        fs::write(&path, wrong).unwrap();
        assert!(read(&path, whole()).is_err());
    }
}

#[test]
fn blocks_are_means_and_edges_without_a_block_are_left_out() {
    let samples = |values: Vec<u8>| Samples {
        shape: vec![1, 3, 5],
        values: Values::U8(values),
    };
    let pixels = array(samples((0..15).collect()), view(Channel::Grey, None, 2)).unwrap();
    // Rows 0 and 1, columns 0 to 3: (0 + 1 + 5 + 6) / 4 and (2 + 3 + 7 + 8) / 4.
    assert_eq!(pixels.samples.values, Values::F32(vec![3.0, 5.0]));
    assert_eq!(pixels.samples.shape, [1, 2]);
    assert_eq!(pixels.positions.values, [0.5, 0.5, 2.5, 0.5]);
    let part = array(
        samples((0..15).collect()),
        view(Channel::Grey, Some([1, 1, 4, 2]), 2),
    )
    .unwrap();
    assert_eq!(part.samples.values, Values::F32(vec![9.0, 11.0]));
    assert_eq!(part.positions.values, [1.5, 1.5, 3.5, 1.5]);
    for (region, block, says) in [
        (Some([1, 0, 5, 1]), 1, "5 × 3 pixels"),
        (Some([usize::MAX, 0, 5, 1]), 1, "--region"),
        (None, 4, "--downsample"),
    ] {
        let error = array(samples(vec![0; 15]), view(Channel::Grey, region, block));
        let error = error.err().unwrap();
        assert!(error.message().contains(says), "{error}");
    }
    let error = array(samples(vec![0; 15]), view(Channel::Hue, None, 1));
    let error = error.err().unwrap();
    assert!(error.message().contains("got hue"), "{error}");
}

#[test]
fn hue_is_an_angle_whose_mean_is_a_direction() {
    use std::f32::consts::{PI, TAU};
    let colours = |values: Vec<u8>| Samples {
        shape: vec![1, 1, values.len() / 3, 3],
        values: Values::U8(values),
    };
    let hues = |values: Vec<u8>, block| -> Vec<f32> {
        let mut samples = colours(values);
        if block > 1 {
            samples.shape = vec![1, 2, 2, 3];
        }
        match array(samples, view(Channel::Hue, None, block)) {
            Ok(Pixels {
                samples:
                    Samples {
                        values: Values::F32(hues),
                        ..
                    },
                ..
            }) => hues,
            other => panic!("f32: {:?}", other.err()),
        }
    };
    let found = hues(
        vec![
            255, 0, 0, 255, 255, 0, 0, 255, 0, 0, 0, 255, 255, 0, 255, 9, 9, 9,
        ],
        1,
    );
    let sixths = [0.0, 1.0, 2.0, 4.0, 5.0];
    for (hue, sixth) in found.iter().zip(sixths) {
        assert!((hue - sixth * PI / 3.0).abs() < 1e-6, "{hue} {sixth}");
    }
    assert!(found.len() == 6 && found[5].is_nan());
    // A yellowish and a bluish red on both sides of 0, beside a grey: red, not cyan.
    let red = hues(vec![255, 30, 0, 255, 0, 30, 9, 9, 9, 255, 0, 0], 2);
    let from_red = red[0].min(TAU - red[0]);
    assert!(from_red < 1e-6, "{red:?}");
    // Red and cyan have no mean.
    let none = hues(vec![255, 0, 0, 0, 255, 255, 255, 0, 0, 0, 255, 255], 2);
    assert!(none[0].is_nan(), "{none:?}");
}
