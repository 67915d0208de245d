//! Outputs as bytes: the plain datagram, which more than one bus carries ([`udp`](crate::udp) has its table).

use super::Estimate;

/// Bytes before the entries.
pub(crate) const HEADER: usize = 32;
pub(crate) const MAGIC: [u8; 4] = *b"BETZ";
pub(crate) const VERSION: u8 = 1;
const OUTPUTS: u8 = 16;

/// Puts `decoded` in the place of what is in `to`.
pub(crate) fn outputs(decoded: &Estimate<'_>, to: &mut Vec<u8>) {
    to.clear();
    to.extend(MAGIC);
    to.extend([VERSION, OUTPUTS]);
    to.extend((decoded.values.len() as u16).to_le_bytes());
    to.extend(decoded.sequence.to_le_bytes());
    to.extend(decoded.sent_or_arrival().to_le_bytes());
    to.extend(decoded.status.to_le_bytes());
    to.extend([0; 4]);
    to.extend(decoded.values.iter().flat_map(|v| v.to_le_bytes()));
}
