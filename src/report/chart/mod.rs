//! Drawings, as SVG: figures over time, times of epochs side by side, the gain by more nodes.

pub(super) mod clock;
pub(super) mod panel;
pub(super) mod speed_up;
pub(super) mod strip;
pub(super) mod ticks;
