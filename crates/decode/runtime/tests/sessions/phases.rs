//! Sessions that step in turn, a tick apart.

use betz_base::{ErrorKind, Result};
use betz_runtime::model::Decoder;
use betz_runtime::stream::{MAX_PHASES, PhasedSession, Session, SessionConfig};
use rand::RngExt;

use crate::common::rng;

const TICKS: usize = 90;

/// Counts of every tick, (tick, channel).
fn ticks(channels: usize) -> Vec<u16> {
    let rng = &mut rng(7);
    (0..TICKS * channels)
        .map(|_| rng.random_range(0..4_u16) / 2)
        .collect()
}

fn phased(decoder: &Decoder, phases: usize) -> Result<PhasedSession> {
    PhasedSession::open(decoder, phases, SessionConfig::default())
}

/// Estimates of sessions that are opened apart, each on whole bins of `phases` ticks that end with its own.
fn apart(decoder: &Decoder, counts: &[u16], phases: usize) -> Result<Vec<f32>> {
    let channels = decoder.channels();
    let mut estimates = vec![0.0; TICKS * decoder.outputs().len()];
    for phase in 0..phases {
        let mut session = Session::open(decoder, SessionConfig::default())?;
        for last in (phase..TICKS).step_by(phases) {
            let mut bin = vec![0; channels];
            for tick in (last + 1).saturating_sub(phases)..=last {
                for (sum, count) in bin.iter_mut().zip(&counts[tick * channels..]) {
                    *sum += count;
                }
            }
            let width = session.outputs();
            let out = &mut estimates[last * width..][..width];
            session.step_counts(&bin, out)?;
        }
    }
    Ok(estimates)
}

fn by_counts(session: &mut PhasedSession, counts: &[u16]) -> Result<Vec<f32>> {
    let width = session.outputs();
    let mut estimates = vec![0.0; TICKS * width];
    let rows = counts.chunks(session.channels());
    for (row, out) in rows.zip(estimates.chunks_mut(width)) {
        session.step_counts(row, out)?;
    }
    Ok(estimates)
}

#[test]
fn every_phase_is_a_session_on_bins_that_end_with_its_tick() {
    for decoder in crate::recurrent::decoders() {
        let counts = ticks(decoder.channels());
        for phases in [1, 4, 100] {
            let mut session = phased(&decoder, phases).unwrap();
            let expected = apart(&decoder, &counts, phases).unwrap();
            assert_eq!(by_counts(&mut session, &counts).unwrap(), expected);
            // From rest again, and spike by spike.
            session.reset();
            let mut out = vec![0.0; session.outputs()];
            for (row, expected) in counts
                .chunks(decoder.channels())
                .zip(expected.chunks(out.len()))
            {
                let spikes: Vec<u32> = (0..)
                    .zip(row)
                    .flat_map(|(channel, &count)| vec![channel; count.into()])
                    .collect();
                session.step_spikes(&spikes, &mut out).unwrap();
                assert_eq!(out, expected);
            }
        }
    }
}

#[test]
fn refused_ticks_change_nothing() {
    let decoder = &crate::recurrent::decoders()[0];
    let counts = ticks(decoder.channels());
    let mut session = phased(decoder, 3).unwrap();
    let expected = by_counts(&mut session, &counts).unwrap();
    session.reset();
    let mut out = vec![0.0; session.outputs()];
    let mut got = Vec::new();
    for row in counts.chunks(decoder.channels()) {
        let kinds = [
            session.step_counts(&row[1..], &mut out),
            session.step_counts(row, &mut out[1..]),
            session.step_spikes(&[0, 99], &mut out),
            session.step_spikes(&[0], &mut []),
        ];
        for refused in kinds {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Mismatch);
        }
        session.step_counts(row, &mut out).unwrap();
        got.extend_from_slice(&out);
    }
    assert_eq!(got, expected);
    for phases in [0, MAX_PHASES + 1] {
        let refused = PhasedSession::open(decoder, phases, SessionConfig::default());
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
