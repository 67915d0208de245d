//! ONNX files that are made here: moves on the way of the data, and initial states.

use super::draft::Attribute::{Float, Int, Ints, Text};
use super::draft::Draft;
use super::*;

const UNITS: usize = 2;

/// Numbers that differ, of one layer of two units on three inputs and a readout of two outputs.
fn some(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * 37 + seed * 11) % 19) as f32 / 19.0 - 0.4)
        .collect()
}

/// A GRU called `name` of `inputs` inputs, with `initial` states.
fn with_gru(made: Draft, name: &str, from: &str, inputs: usize, initial: &str) -> Draft {
    let seed = name.len();
    let [w, r, b] = ["w", "r", "b"].map(|what| format!("{name}_{what}"));
    made.floats(&w, &[1, 3 * UNITS, inputs], &some(3 * UNITS * inputs, seed))
        .floats(
            &r,
            &[1, 3 * UNITS, UNITS],
            &some(3 * UNITS * UNITS, seed + 1),
        )
        .floats(&b, &[1, 6 * UNITS], &some(6 * UNITS, seed + 2))
        .node(
            "GRU",
            &format!("{from} {w} {r} {b} - {initial}"),
            &format!("{name}_y {name}_last"),
            &[("hidden_size", Int(2)), ("linear_before_reset", Int(1))],
        )
}

fn with_readout(made: Draft, from: &str) -> Draft {
    made.floats("readout", &[2, UNITS], &some(2 * UNITS, 7))
        .floats("bias", &[2], &[0.5, -1.0])
        .node(
            "Gemm",
            &format!("{from} readout bias"),
            "out",
            &[("transB", Int(1))],
        )
}

/// A GRU on x, (time, batch, 3), its first output without the axis of directions.
fn start() -> Draft {
    with_gru(Draft::new(3), "gru", "x", 3, "-")
        .integers("one", &[1], &[1])
        .node("Squeeze", "gru_y one", "h", &[])
}

fn plain() -> Network {
    onnx::read(&with_readout(start(), "h").file("out")).unwrap()
}

#[test]
fn moves_that_keep_each_step_are_passed_over() {
    let expected = plain();
    let last = |made: Draft| {
        made.integers("minus", &[], &[-1])
            .integers("zero", &[], &[0])
    };
    let end = i64::MAX;
    let cases: Vec<(&str, Draft)> = vec![
        ("batch first", {
            let made = Draft::new(3).node("Transpose", "x", "t", &[("perm", Ints(&[1, 0, 2]))]);
            let made = with_gru(made, "gru", "t", 3, "-")
                .integers("one", &[1], &[1])
                .node("Squeeze", "gru_y one", "s", &[]);
            with_readout(
                made.node("Transpose", "s", "h", &[("perm", Ints(&[1, 0, 2]))]),
                "h",
            )
        }),
        ("last step", {
            let made = last(start()).node("Gather", "h minus", "l", &[("axis", Int(0))]);
            with_readout(made, "l")
        }),
        ("last states", {
            let made = last(start()).node("Gather", "gru_last minus", "l", &[("axis", Int(0))]);
            with_readout(made, "l")
        }),
        ("whole slices and casts", {
            let made = start()
                .integers("starts", &[2], &[0, 0])
                .integers("ends", &[2], &[end, 2])
                .integers("axes", &[2], &[0, -1])
                .node("Slice", "h starts ends axes", "a", &[])
                .node("Cast", "a", "b", &[("to", Int(1))])
                .node("Identity", "b", "c", &[])
                .node("Dropout", "c", "d", &[]);
            with_readout(made, "d")
        }),
        ("a slice of the last step", {
            let made = start()
                .integers("starts", &[1], &[-1])
                .integers("ends", &[1], &[end])
                .integers("axes", &[1], &[0])
                .node("Slice", "h starts ends axes", "a", &[]);
            with_readout(made, "a")
        }),
        ("a shape of the same", {
            let made = start().integers("shape", &[3], &[-1, 1, 2]);
            with_readout(made.node("Reshape", "h shape", "a", &[]), "a")
        }),
        ("no batch", {
            let made =
                Draft::new(2)
                    .integers("one", &[1], &[1])
                    .node("Unsqueeze", "x one", "u", &[]);
            let made = with_gru(made, "gru", "u", 3, "-")
                .integers("two", &[2], &[1, 2])
                .node("Squeeze", "gru_y two", "h", &[]);
            with_readout(made, "h")
        }),
        ("states that nobody reads", {
            with_readout(start(), "h").node("Softmax", "gru_last", "other", &[])
        }),
    ];
    for (name, made) in cases {
        let network = onnx::read(&made.file("out"));
        assert_eq!(
            network.map_err(|e| format!("{name}: {e}")).unwrap(),
            expected
        );
    }
}

#[test]
fn more_layers_than_a_recurrent_decoder_has_are_a_chain() {
    let draft = (0..8).fold(start(), |draft, layer| {
        let (name, from) = (
            format!("g{layer}"),
            match layer {
                0 => "h".to_owned(),
                _ => format!("h{}", layer - 1),
            },
        );
        with_gru(draft, &name, &from, 2, "-").node(
            "Squeeze",
            &format!("{name}_y one"),
            &format!("h{layer}"),
            &[],
        )
    });
    let network = onnx::read(&with_readout(draft, "h7").file("out")).unwrap();
    assert_eq!(
        network.describe(),
        format!("{}linear 2", "gru 2, ".repeat(9))
    );
}

#[test]
fn last_states_of_two_layers_are_told_apart() {
    let two = |index: i64| {
        let made = with_gru(start(), "second", "h", 2, "-")
            .node("Concat", "gru_last second_last", "all", &[("axis", Int(0))])
            .integers("index", &[], &[index])
            .node("Gather", "all index", "l", &[("axis", Int(0))]);
        with_readout(made, "l")
    };
    let network = onnx::read(&two(-1).file("out")).unwrap();
    assert_eq!(network.describe(), "gru 2, 2");
    assert_eq!(onnx::read(&two(1).file("out")).unwrap(), network);
    let message = two(0).refused("out");
    assert!(
        message.contains("joined paths are not supported"),
        "{message}"
    );
}

/// Each would change what a step's values are, in silence.
#[test]
fn moves_that_change_a_step_are_refused_by_name() {
    let ranges = |start: i64, end: i64, axis: i64, step: i64| {
        start_of_slice(start, end, axis, step).node("Slice", "h s e a p", "m", &[])
    };
    let gather = |from: &str, axis: i64, index: i64| {
        start().integers("index", &[], &[index]).node(
            "Gather",
            &format!("{from} index"),
            "m",
            &[("axis", Int(axis))],
        )
    };
    let moved = |operator: &str, inputs: &str, list: &[i64]| {
        let made = start().integers("list", &[list.len()], list);
        made.node(operator, inputs, "m", &[])
    };
    let cases = [
        ("Slice \"m\"", ranges(1, i64::MAX, 0, 1)),
        ("Slice \"m\"", ranges(0, -1, 0, 1)),
        ("Slice \"m\"", ranges(0, i64::MAX, 0, 2)),
        ("Slice \"m\"", ranges(-1, i64::MIN, 0, -1)),
        ("Slice \"m\"", ranges(0, 1, 2, 1)),
        ("Gather \"m\"", gather("h", 0, 0)),
        ("Gather \"m\"", gather("h", 2, -1)),
        ("Gather \"m\"", gather("gru_y", 0, -2)),
        ("Transpose \"m\"", {
            start().node("Transpose", "h", "m", &[("perm", Ints(&[0, 0, 2]))])
        }),
        ("Gemm \"out\"", {
            start().node("Transpose", "h", "m", &[("perm", Ints(&[2, 1, 0]))])
        }),
        ("Squeeze \"m\"", moved("Squeeze", "h list", &[0])),
        ("Reshape \"m\"", moved("Reshape", "h list", &[1, -1, 4])),
        ("Reshape \"m\"", moved("Reshape", "h list", &[-1, 2])),
        ("Concat \"m\"", {
            let zeros = start().floats("zeros", &[1, 1, 2], &[0.0; 2]);
            zeros.node("Concat", "zeros h", "m", &[("axis", Int(0))])
        }),
        (
            "Concat \"m\"",
            start().node("Concat", "h h", "m", &[("axis", Int(2))]),
        ),
        ("Expand \"m\"", moved("Expand", "h list", &[4, 1, 2])),
        (
            "Cast \"m\"",
            start().node("Cast", "h", "m", &[("to", Int(7))]),
        ),
        ("Gather \"m\"", {
            let made = start().floats("table", &[9, 2], &[0.5; 18]);
            made.node("Gather", "table h", "m", &[])
        }),
    ];
    for (expected, made) in cases {
        let message = with_readout(made, "m").refused("out");
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

#[test]
fn parts_of_an_lstm_that_no_layer_hands_on_are_refused() {
    // c is not what its layer hands on.
    let lstm = Draft::new(3)
        .floats("w", &[1, 8, 3], &some(24, 1))
        .floats("r", &[1, 8, 2], &some(16, 2))
        .integers("zero", &[], &[0])
        .node("LSTM", "x w r", "y last c", &[("hidden_size", Int(2))])
        .node("Gather", "c zero", "m", &[("axis", Int(0))]);
    let message = with_readout(lstm, "m").refused("out");
    assert!(message.contains("do not lead there"), "{message}");
    let attributes = [("direction", Text("reverse")), ("hidden_size", Int(2))];
    let reverse = start().node("LSTM", "h w r", "m", &attributes);
    let message = with_readout(reverse, "m").refused("out");
    assert!(message.contains("attribute direction"), "{message}");
}

#[test]
fn matrices_that_are_scaled_or_have_a_computed_bias_are_refused() {
    let double = start().floats("readout", &[2, 2], &some(4, 7)).node(
        "Gemm",
        "h readout",
        "out",
        &[("alpha", Float(2.0))],
    );
    let message = double.refused("out");
    assert!(message.contains("expected alpha and beta 1"), "{message}");
    // A bias that is computed is no bias of 0.
    let computed = start()
        .floats("b", &[2], &[1.0, 2.0])
        .node("Mul", "b b", "bias2", &[])
        .floats("readout", &[2, 2], &some(4, 7))
        .node("Gemm", "h readout bias2", "out", &[("transB", Int(1))]);
    let message = computed.refused("out");
    assert!(
        message.contains("\"bias2\": expected a constant"),
        "{message}"
    );
}

fn start_of_slice(start: i64, end: i64, axis: i64, step: i64) -> Draft {
    let list = [("s", start), ("e", end), ("a", axis), ("p", step)];
    list.iter().fold(self::start(), |made, (name, value)| {
        made.integers(name, &[1], &[*value])
    })
}

#[test]
fn initial_states_that_are_not_zero_are_refused() {
    let made = |made: Draft, initial: &str| {
        let made = with_gru(made, "gru", "x", 3, initial)
            .integers("one", &[1], &[1])
            .node("Squeeze", "gru_y one", "h", &[]);
        with_readout(made, "h")
    };
    let empty = || Draft::new(3);
    let two = |made: Draft| {
        made.integers("s", &[1], &[0])
            .integers("e", &[1], &[1])
            .node("Slice", "states s e", "initial", &[])
    };
    let accepted = [
        made(empty().floats("zeros", &[1, 1, 2], &[0.0; 2]), "zeros"),
        // As exporters make zeros of a batch whose size they do not know.
        made(
            empty()
                .node("Shape", "x", "shape", &[])
                .integers("at", &[], &[1])
                .node("Gather", "shape at", "batch", &[])
                .integers("zero", &[1], &[0])
                .node("Unsqueeze", "batch zero", "batch1", &[])
                .integers("one1", &[1], &[1])
                .integers("two", &[1], &[2])
                .node("Concat", "one1 batch1 two", "sizes", &[("axis", Int(0))])
                .node("ConstantOfShape", "sizes", "zeros", &[])
                .node("Identity", "zeros", "initial", &[]),
            "initial",
        ),
        made(empty().input("states"), "states"),
        made(two(empty().input("states")), "initial"),
        made(
            two(empty().floats("states", &[2, 1, 2], &[0.0, 0.0, 1.0, 1.0])),
            "initial",
        ),
    ];
    for made in accepted {
        assert_eq!(onnx::read(&made.file("out")).unwrap(), plain());
    }
    let refused = [
        made(empty().floats("states", &[1, 1, 2], &[0.0, 0.5]), "states"),
        made(
            two(empty().floats("states", &[2, 1, 2], &[0.0, 0.5, 0.0, 0.0])),
            "initial",
        ),
        made(
            empty()
                .floats("half", &[1, 1, 2], &[0.5; 2])
                .node("Mul", "half half", "states", &[]),
            "states",
        ),
        made(
            empty()
                .input("given")
                .node("Sigmoid", "given", "states", &[]),
            "states",
        ),
    ];
    for made in refused {
        let message = made.refused("out");
        assert!(
            message.contains("initial_h \"")
                && message.contains("expected initial states that are 0"),
            "{message}"
        );
    }
    // A state that the counts tell is no constant, either.
    let message = made(
        empty()
            .integers("zero", &[], &[0])
            .node("Gather", "x zero", "states", &[]),
        "states",
    );
    let message = message.refused("out");
    assert!(message.contains("Gather \"states\""), "{message}");
}

/// A convolution called `conv` of three inputs on `from`.
fn with_conv(draft: Draft, from: &str, pads: &[i64], stride: i64) -> Draft {
    draft
        .floats("kernel", &[2, 3, 3], &some(18, 3))
        .floats("conv_bias", &[2], &[0.25, -0.5])
        .node(
            "Conv",
            &format!("{from} kernel conv_bias"),
            "conv",
            &[("pads", Ints(pads)), ("strides", Ints(&[stride]))],
        )
}

#[test]
fn convolutions_that_see_steps_to_come_are_refused() {
    let pad = |pads: &[i64], value: f32, mode: &str| {
        let draft = Draft::new(3)
            .integers("pads", &[pads.len()], pads)
            .floats("value", &[], &[value])
            .node("Pad", "x pads value", "m", &[("mode", Text(mode))]);
        with_conv(draft, "m", &[0, 0], 1)
    };
    let described = |draft: Draft| onnx::read(&draft.file("conv")).unwrap().describe();
    assert_eq!(
        described(pad(&[0, 0, 2, 0, 0, 0], 0.0, "constant")),
        "window 3/1, linear 2"
    );
    assert_eq!(
        described(with_conv(Draft::new(3), "x", &[2, 2], 1)),
        "window 3/1, linear 2"
    );
    assert_eq!(
        described(with_conv(Draft::new(3), "x", &[0, 0], 4)),
        "window 3/4, linear 2"
    );
    let cases = [
        (
            "expected a causal convolution",
            with_conv(Draft::new(3), "x", &[1, 1], 1),
        ),
        (
            "expected a causal convolution",
            with_conv(Draft::new(3), "x", &[0, 2], 1),
        ),
        (
            "expected a causal convolution",
            with_conv(Draft::new(3), "x", &[2, 2], 2),
        ),
        (
            "expected a causal convolution",
            with_conv(Draft::new(3), "x", &[3, 0], 1),
        ),
        (
            "expected a causal convolution",
            pad(&[0, 0, 1, 0, 0, 1], 0.0, "constant"),
        ),
        (
            "Pad \"m\": expected zeros before",
            pad(&[0, 2, 0, 0, 0, 0], 0.0, "constant"),
        ),
        (
            "Pad \"m\": expected zeros before",
            pad(&[0, 0, -1, 0, 0, 0], 0.0, "constant"),
        ),
        (
            "Pad \"m\": expected a constant number of zeros",
            pad(&[0, 0, 2, 0, 0, 0], 1.0, "constant"),
        ),
        (
            "Pad \"m\": expected a constant number of zeros",
            pad(&[0, 0, 2, 0, 0, 0], 0.0, "reflect"),
        ),
        ("expected a Conv behind a Pad", {
            pad(&[0, 0, 2, 0, 0, 0], 0.0, "constant").node("Relu", "m", "conv", &[])
        }),
    ];
    for (expected, draft) in cases {
        // The last node of the name tells.
        let message = draft.refused("conv");
        assert!(message.contains(expected), "{expected}: {message}");
    }
    // Steps behind the last one are of zeros to come: none of them may be taken for the last.
    let ends = with_conv(Draft::new(3), "x", &[2, 2], 1)
        .integers("minus", &[], &[-1])
        .node("Gather", "conv minus", "last", &[("axis", Int(2))]);
    let message = ends.refused("last");
    assert!(
        message.contains("Gather \"last\": expected a move"),
        "{message}"
    );
}

#[test]
fn activations_are_told_by_their_operators_or_formulas() {
    let draft = || {
        start()
            .floats("a", &[2, 2], &some(4, 1))
            .node("MatMul", "h a", "y", &[])
    };
    let described = |draft: Draft| onnx::read(&draft.file("z")).map(|n| n.describe());
    let silu = || {
        draft()
            .node("Sigmoid", "y", "s", &[])
            .node("Mul", "s y", "z", &[])
    };
    let cases = [
        ("softsign", draft().node("Softsign", "y", "z", &[])),
        (
            "gelu",
            draft().node("Gelu", "y", "z", &[("approximate", Text("none"))]),
        ),
        (
            "elu",
            draft().node("Elu", "y", "z", &[("alpha", Float(1.0))]),
        ),
        ("tanh", draft().node("Tanh", "y", "z", &[])),
        ("silu", silu()),
    ];
    for (name, draft) in cases {
        let expected = format!("gru 2, linear 2, {name}");
        assert_eq!(described(draft).unwrap(), expected);
    }
    let refused = [
        draft().node("Gelu", "y", "z", &[("approximate", Text("tanh"))]),
        draft().node("Elu", "y", "z", &[("alpha", Float(0.5))]),
        draft().node("LeakyRelu", "y", "z", &[]),
        // Paths that join, and a value that is used after another was made of it.
        draft().node("Add", "y h", "z", &[]),
        draft()
            .node("Tanh", "y", "t", &[])
            .node("Mul", "t y", "z", &[]),
        silu().node("Relu", "s", "z", &[]),
        draft()
            .node("Sigmoid", "h", "s", &[])
            .node("Mul", "s y", "z", &[]),
        draft()
            .floats("half", &[], &[0.5])
            .node("Mul", "y half", "z", &[]),
        draft().node("Abs", "y", "z", &[]),
        draft()
            .node("Abs", "y", "w", &[])
            .node("Relu", "w", "z", &[]),
        // Normalised over steps.
        draft().floats("scale", &[2], &[1.0, 1.0]).node(
            "LayerNormalization",
            "y scale",
            "z",
            &[("axis", Int(0))],
        ),
    ];
    for draft in refused {
        assert!(described(draft.clone()).is_err(), "{:?}", described(draft));
    }
}
