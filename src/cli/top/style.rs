//! Colours, or none.

use ratatui_core::style::{Color, Modifier, Style};

/// How things are set off from each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Palette {
    colour: bool,
}

impl Palette {
    /// With colours, or with bold and reversed letters alone.
    pub(crate) fn new(colour: bool) -> Self {
        Self { colour }
    }

    fn coloured(self, colour: Color) -> Style {
        if self.colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    pub(super) fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(super) fn curve(self) -> Style {
        self.coloured(Color::Cyan)
    }

    pub(super) fn quiet(self) -> Style {
        self.coloured(Color::DarkGray)
    }

    /// What somebody should look at.
    pub(super) fn warning(self) -> Style {
        self.coloured(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    pub(super) fn trouble(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }
}
