//! Files of another kind than the argument takes, and options with values of no sense.

/// Every such use.
pub(crate) fn all() -> Vec<String> {
    let mut all = Vec::new();
    let files = [
        "a.npz",
        "m.betz",
        "s.csv",
        "r.nwb",
        "e.txt",
        "raw.dat",
        "empty.npz",
        "text.npz",
    ];
    for file in files {
        for command in [
            format!("train {file} --out OUT.betz --filter 0.02:1 --folds 0 --ridge 1"),
            format!("evaluate {file} a.npz"),
            format!("evaluate m.betz {file}"),
            format!("decode {file} a.npz --out OUT.csv"),
            format!("decode m.betz {file} --out OUT.csv"),
            format!("stream {file} a.npz"),
            format!("adapt {file} a.npz"),
            format!("adapt m.betz {file}"),
            format!("solve {file} --out OUT.betz"),
            format!("sums {file} --filter 0.02:1 --out OUT.sums"),
            format!("drop {file} --channels 0 --out OUT.betz"),
            format!("look {file}"),
            format!("compare {file} --bank single --decoders kalman"),
            format!("convert {file} OUT.npz --force"),
            format!("mine {file} --interval 0,0.005 --threshold 9 --max-size 2"),
            format!(
                "network compute {file} --window 1s --step 1s --bin 50ms --threshold 0.5 --out OUT.npz"
            ),
            format!("network compare {file} {file}"),
            format!("sort show {file}"),
            format!("sort run {file} raw.dat --channels 4 --out OUT.npz"),
            format!("som {file} --map 3x3 --epochs 2 --out OUT.npz"),
            format!("join {file} --out OUT.npz"),
            format!("export {file} --out OUT.onnx"),
        ] {
            all.push(command);
        }
    }
    for option in ["--memory", "--device-memory", "--retain"] {
        for size in [
            "0",
            "1",
            "4095",
            "-1",
            "nan",
            "x",
            "''",
            "1e9",
            "99999999999TB",
            "4KiB",
        ] {
            all.push(format!(
                "train a.npz --out OUT.betz --filter 0.02:1 --folds 0 --ridge 1 {option}={size}"
            ));
        }
    }
    for device in [
        "gpu", "''", "cuda:", "cuda:x", "cuda:-1", "CPU", "cpu0", "cuda:99",
    ] {
        for command in ["info a.npz", "evaluate m.betz a.npz", "look a.npz"] {
            all.push(format!("{command} --device={device}"));
        }
    }
    for filter in [
        "0:1", "-1:1", "nan:1", "1:-1", "1:99", "1", ":", "x:y", "1e9:1", "0.02:0.5", "''",
    ] {
        all.push(format!(
            "train a.npz --out OUT.betz --folds 0 --ridge 1 --filter={filter}"
        ));
        all.push(format!(
            "train a.npz --out OUT.betz --folds 0 --ridge 1 --filter 0.02:1 --low-pass={filter}"
        ));
    }
    for list in [
        "", ",", "0..0", "1..0", "..", "-1", "0,,1", "a", "0..999", "99", "0-3", "1:2",
    ] {
        all.push(format!(
            "train a.npz --out OUT.betz --filter 0.02:1 --folds 0 --ridge 1 --segments={list}"
        ));
        all.push(format!("drop m.betz --channels={list} --out OUT.betz"));
        all.push(format!("look a.npz --channels={list}"));
    }
    all
}
