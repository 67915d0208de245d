//! A whole session: the sources of a rig, one clock, front end, decoder, outputs, recorder and replay.
