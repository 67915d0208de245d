//! Layouts of Neuropixels probes, and the electrodes that an imec readout table (IMRO) selects.
//!
//! Layouts are those of ProbeTable (<https://github.com/billkarsh/ProbeTable>). Positions count as probeinterface counts
//! them: x from the leftmost electrode of odd rows, y from the lowest row, shanks beside each other by their pitch.

/// Arrangement of the electrodes of a probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ProbeLayout {
    shanks: u32,
    columns: u32,
    rows: u32,
    x_pitch: f32,
    y_pitch: f32,
    /// Distance of the leftmost electrode of even and of odd rows from the left edge of the shank.
    even: f32,
    odd: f32,
    shank_pitch: f32,
    /// Gain of the band of action potentials if it is fixed.
    fixed_gain: Option<f64>,
    /// Half the range of the converter's numbers.
    pub(super) most_int: f64,
}

const fn layout(
    [shanks, columns, rows]: [u32; 3],
    [x_pitch, y_pitch, even, odd, shank_pitch]: [f32; 5],
    fixed_gain: Option<f64>,
    most_int: f64,
) -> ProbeLayout {
    ProbeLayout {
        shanks,
        columns,
        rows,
        x_pitch,
        y_pitch,
        even,
        odd,
        shank_pitch,
        fixed_gain,
        most_int,
    }
}

/// Part numbers, and the layout that they share.
type Parts = (&'static [&'static str], ProbeLayout);

#[rustfmt::skip]
const LAYOUTS: &[Parts] = &[
    (&["NP1000", "NP1001", "NP1010", "NP1011", "NP1012", "NP1013", "NP1014", "PRB_1_2_0480_2", "PRB_1_4_0480_1", "PRB_1_4_0480_1_C"],
        layout([1, 2, 480], [32.0, 20.0, 27.0, 11.0, 0.0], None, 512.0)),
    (&["NP1015", "NP1016", "NP1017"], layout([1, 2, 480], [32.0, 20.0, 27.0, 27.0, 0.0], None, 512.0)),
    (&["NP1020", "NP1021"], layout([1, 2, 1248], [87.0, 20.0, 27.0, 11.0, 0.0], None, 512.0)),
    (&["NP1022"], layout([1, 2, 1248], [103.0, 20.0, 11.0, 11.0, 0.0], None, 512.0)),
    (&["NP1030", "NP1031"], layout([1, 2, 2208], [87.0, 20.0, 27.0, 11.0, 0.0], None, 512.0)),
    (&["NP1032", "NP1033", "NP1040", "NP1041", "NP1042", "NP1050", "NP1051"],
        layout([1, 2, 2208], [103.0, 20.0, 11.0, 11.0, 0.0], None, 512.0)),
    (&["NP1100"], layout([1, 8, 48], [6.0, 6.0, 14.0, 14.0, 0.0], None, 512.0)),
    (&["NP1110"], layout([1, 8, 768], [6.0, 6.0, 15.5, 15.5, 0.0], None, 512.0)),
    (&["NP1120"], layout([1, 2, 192], [4.5, 4.5, 6.75, 6.75, 0.0], None, 512.0)),
    (&["NP1121"], layout([1, 1, 384], [0.0, 3.0, 6.25, 6.25, 0.0], None, 512.0)),
    (&["NP1122"], layout([1, 16, 24], [3.0, 3.0, 12.5, 12.5, 0.0], None, 512.0)),
    (&["NP1123"], layout([1, 12, 32], [4.5, 4.5, 10.25, 10.25, 0.0], None, 512.0)),
    (&["NP1200", "NP1210"], layout([1, 2, 64], [32.0, 31.0, 56.5, 36.5, 0.0], None, 512.0)),
    (&["NP1300", "NP1400"], layout([1, 2, 480], [48.0, 20.0, 11.0, 11.0, 0.0], None, 512.0)),
    (&["NP2000", "PRB2_1_2_0640_0"], layout([1, 2, 640], [32.0, 15.0, 27.0, 27.0, 0.0], Some(80.0), 8192.0)),
    (&["NP2003", "NP2004", "NP2005"], layout([1, 2, 640], [32.0, 15.0, 27.0, 27.0, 0.0], Some(100.0), 2048.0)),
    (&["NP2006"], layout([1, 2, 640], [32.0, 15.0, 27.0, 11.0, 0.0], Some(100.0), 2048.0)),
    (&["NP2010", "PRB2_4_2_0640_0"], layout([4, 2, 640], [32.0, 15.0, 27.0, 27.0, 250.0], Some(80.0), 8192.0)),
    (&["NP2013", "NP2014", "NP2020", "NP2021"], layout([4, 2, 640], [32.0, 15.0, 27.0, 27.0, 250.0], Some(100.0), 2048.0)),
    (&["NP2022"], layout([4, 2, 640], [20.0, 15.0, 27.0, 11.0, 2141.45], Some(100.0), 2048.0)),
    (&["NP2300"], layout([1, 2, 640], [48.0, 15.0, 11.0, 11.0, 0.0], Some(100.0), 2048.0)),
    (&["NP3000"], layout([1, 1, 128], [0.0, 15.0, 59.0, 59.0, 0.0], None, 512.0)),
    (&["NP3010", "NP3011", "NP3012"], layout([1, 2, 640], [32.0, 15.0, 27.0, 27.0, 0.0], Some(100.0), 2048.0)),
    (&["NP3020", "NP3021", "NP3022", "NP3023", "NP3024"],
        layout([4, 2, 640], [32.0, 15.0, 27.0, 27.0, 250.0], Some(100.0), 2048.0)),
];

/// Types of probes as headers number them, and a part of that type.
const TYPES: [(&str, &str); 21] = [
    ("0", "NP1000"),
    ("21", "NP2000"),
    ("24", "NP2010"),
    ("1020", "NP1020"),
    ("1030", "NP1030"),
    ("1100", "NP1100"),
    ("1110", "NP1110"),
    ("1120", "NP1120"),
    ("1121", "NP1121"),
    ("1122", "NP1122"),
    ("1123", "NP1123"),
    ("1200", "NP1200"),
    ("1300", "NP1300"),
    ("2003", "NP2003"),
    ("2005", "NP2005"),
    ("2006", "NP2006"),
    ("2013", "NP2013"),
    ("2020", "NP2020"),
    ("3010", "NP3010"),
    ("3020", "NP3020"),
    ("3022", "NP3022"),
];

/// Electrode of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Electrode {
    pub(super) shank: u32,
    /// Number on its shank, row by row from the tip.
    pub(super) number: u32,
}

impl ProbeLayout {
    /// Layout of a part number; `None` if it is not listed.
    pub(super) fn of_part(part: &str) -> Option<&'static Self> {
        let found = LAYOUTS.iter().find(|(parts, _)| parts.contains(&part));
        found.map(|(_, layout)| layout)
    }

    /// Layout of a type as headers number it.
    pub(super) fn of_type(number: &str) -> Option<&'static Self> {
        let part = TYPES.iter().find(|(of, _)| *of == number)?.1;
        Self::of_part(part)
    }

    /// Gain of the band of action potentials if it cannot be chosen.
    pub(super) fn fixed_gain(&self) -> Option<f64> {
        self.fixed_gain
    }

    /// x of a position that counts from the left edge of its shank.
    pub(super) fn x_of_edge(&self, x: f32) -> f32 {
        x - self.odd
    }

    /// (x, y) of an electrode in micrometres; `None` if the probe has no such electrode.
    pub(super) fn place(&self, electrode: Electrode) -> Option<[f32; 2]> {
        let (row, column) = (
            electrode.number / self.columns,
            electrode.number % self.columns,
        );
        self.grid_place(electrode.shank, column, row)
    }

    /// (x, y) of the electrode in a row and a column of a shank.
    pub(super) fn grid_place(&self, shank: u32, column: u32, row: u32) -> Option<[f32; 2]> {
        if shank >= self.shanks || column >= self.columns || row >= self.rows {
            return None;
        }
        let stagger = if row.is_multiple_of(2) {
            self.even - self.odd
        } else {
            0.0
        };
        let x = column as f32 * self.x_pitch + stagger + shank as f32 * self.shank_pitch;
        Some([x, row as f32 * self.y_pitch])
    }

    /// Electrode by its number among those of all shanks.
    pub(super) fn electrode(&self, number: u32) -> Electrode {
        let of_shank = self.columns * self.rows;
        Electrode {
            shank: number / of_shank,
            number: number % of_shank,
        }
    }

    /// Distance of two shanks.
    pub(super) fn shank_pitch(&self) -> f32 {
        self.shank_pitch
    }
}

/// Row of an imec readout table: one readout channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ReadoutChannel {
    pub(super) electrode: Electrode,
    /// Gains of the bands of action potentials and of the local field, if the table has them.
    pub(super) ap_gain: Option<f64>,
    pub(super) lf_gain: Option<f64>,
}

/// The readout channels of an imec readout table; `None` for a table of an unknown form.
pub(super) fn readout_channels(table: &str) -> Option<Vec<ReadoutChannel>> {
    let mut groups = table
        .split(')')
        .map(|group| group.trim().trim_start_matches('('));
    let header: Vec<&str> = groups.next()?.split(',').map(str::trim).collect();
    let rows: Vec<Vec<u32>> = groups
        .filter(|group| !group.is_empty())
        .map(|group| {
            group
                .split_whitespace()
                .map(|n| n.parse().ok())
                .collect::<Option<_>>()
        })
        .collect::<Option<_>>()?;
    let first = *header.first()?;
    if first == "1110" || first == "NP1110" {
        return high_density(&header, &rows);
    }
    // Phase 3A: serial number, option, channels.
    let phase_3a = header.len() == 3;
    let one = phase_3a
        || first == "0"
        || first.starts_with("NP1")
        || first.starts_with("PRB_")
        || { first.len() == 4 && first.starts_with('1') }
        || first == "NP3000";
    let readout = |row: &Vec<u32>| {
        let electrode = |shank, number| Electrode { shank, number };
        Some(match (one, &row[..]) {
            (true, [channel, bank, _, ap, lf, ..]) => ReadoutChannel {
                electrode: electrode(0, bank.checked_mul(384)?.checked_add(*channel)?),
                ap_gain: Some(f64::from(*ap)),
                lf_gain: Some(f64::from(*lf)),
            },
            (false, [_, _, _, number]) => ReadoutChannel {
                electrode: electrode(0, *number),
                ap_gain: None,
                lf_gain: None,
            },
            (false, [_, shank, _, _, number]) => ReadoutChannel {
                electrode: electrode(*shank, *number),
                ap_gain: None,
                lf_gain: None,
            },
            _ => return None,
        })
    };
    rows.iter().map(readout).collect()
}

/// Channels per group of NP1110, and groups.
const OF_BLOCK: usize = 32;
const GROUPS: usize = 24;
const READOUTS: usize = 384;

/// Readout channels of NP1110: each of 24 groups of 16 channels lies in one of two banks.
fn high_density(header: &[&str], rows: &[Vec<u32>]) -> Option<Vec<ReadoutChannel>> {
    let numbers: Vec<u32> = header[1..]
        .iter()
        .map(|n| n.parse().ok())
        .collect::<Option<_>>()?;
    let [mode, _, ap, lf, ..] = numbers[..] else {
        return None;
    };
    if rows.len() < GROUPS || rows.iter().any(|row| row.len() < 3) {
        return None;
    }
    let group = |channel: usize| 2 * (channel / OF_BLOCK) + (channel & 1);
    let column = |channel: usize, bank: u32| {
        const OF_GROUP: [u32; 8] = [0, 3, 1, 2, 1, 2, 0, 3];
        let pair = OF_GROUP[4 * (bank & 1) as usize + group(channel) % 4];
        let crossed = (bank / 4) & 1;
        let within = ((channel % OF_BLOCK / 2) as u32 & 1) ^ crossed;
        2 * pair + if channel & 1 == 1 { 1 - within } else { within }
    };
    let row = |channel: usize, bank: u32| {
        let within = (channel % OF_BLOCK / 4) as u32;
        let of_group = 8 * (group(channel) / 4) as u32;
        48 * bank + of_group + if channel & 1 == 1 { 7 - within } else { within }
    };
    let readout = |channel: usize| {
        let banks = &rows[group(channel)];
        let (first, second) = (banks[1], banks[2]);
        let at = column(channel, first);
        // Inner columns (0), outer columns (1), or all of the first bank (2).
        let in_first = match mode {
            2 => true,
            1 => (at <= 3) != (at & 1 == 1),
            _ => (at <= 3) == (at & 1 == 1),
        };
        let bank = if in_first { first } else { second };
        ReadoutChannel {
            electrode: Electrode {
                shank: 0,
                number: 8 * row(channel, bank) + column(channel, bank),
            },
            ap_gain: Some(f64::from(ap)),
            lf_gain: Some(f64::from(lf)),
        }
    };
    (0..READOUTS)
        .map(|channel| {
            rows[group(channel)][1..3]
                .iter()
                .all(|b| *b < 16)
                .then(|| readout(channel))
        })
        .collect()
}
