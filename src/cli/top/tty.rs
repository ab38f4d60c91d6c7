//! Cells of a picture as bytes for a terminal. (The usual backend brings a reader of events with some twenty crates.)

use std::io::{self, Write};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::{Attribute, Color as TtyColour, Print, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    self, Clear, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier};

/// The size of a terminal that does not know its own.
const USUAL: Size = Size {
    width: 80,
    height: 24,
};

/// A terminal behind `W`.
#[derive(Debug)]
pub(super) struct Tty<W: Write>(W);

impl<W: Write> Tty<W> {
    pub(super) fn new(writer: W) -> Self {
        Self(writer)
    }

    /// Switches to a page of its own and takes the keys as they come.
    pub(super) fn take_over(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        execute!(
            self.0,
            EnterAlternateScreen,
            Hide,
            Clear(terminal::ClearType::All)
        )
    }

    /// Undoes that.
    pub(super) fn give_back(&mut self) -> io::Result<()> {
        let keys = disable_raw_mode();
        execute!(
            self.0,
            SetAttribute(Attribute::Reset),
            Show,
            LeaveAlternateScreen
        )?;
        keys
    }
}

/// The colours that [`super::Palette`] has.
fn colour(colour: Color) -> TtyColour {
    match colour {
        Color::Red => TtyColour::DarkRed,
        Color::Yellow => TtyColour::DarkYellow,
        Color::Cyan => TtyColour::DarkCyan,
        Color::DarkGray => TtyColour::DarkGrey,
        _ => TtyColour::Reset,
    }
}

impl<W: Write> Backend for Tty<W> {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> io::Result<()> {
        let (mut style, mut next) = ((Color::Reset, Modifier::empty()), None);
        for (x, y, cell) in content {
            if next != Some((x, y)) {
                queue!(self.0, MoveTo(x, y))?;
            }
            next = x.checked_add(1).map(|x| (x, y));
            if style != (cell.fg, cell.modifier) {
                style = (cell.fg, cell.modifier);
                queue!(self.0, SetAttribute(Attribute::Reset))?;
                if cell.modifier.contains(Modifier::BOLD) {
                    queue!(self.0, SetAttribute(Attribute::Bold))?;
                }
                if cell.modifier.contains(Modifier::REVERSED) {
                    queue!(self.0, SetAttribute(Attribute::Reverse))?;
                }
                if cell.fg != Color::Reset {
                    queue!(self.0, SetForegroundColor(colour(cell.fg)))?;
                }
            }
            queue!(self.0, Print(cell.symbol()))?;
        }
        queue!(self.0, SetAttribute(Attribute::Reset))
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        execute!(self.0, Hide)
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        execute!(self.0, Show)
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        // Asked of a page that begins in the middle of the terminal only; ours is a whole one.
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        execute!(self.0, MoveTo(x, y))
    }

    fn clear(&mut self) -> io::Result<()> {
        execute!(self.0, Clear(terminal::ClearType::All))
    }

    fn clear_region(&mut self, _what: ClearType) -> io::Result<()> {
        self.clear()
    }

    fn size(&self) -> io::Result<Size> {
        // Not `terminal::size`, which starts `tput` where the terminal does not say.
        let size = terminal::window_size().ok().map(|size| Size {
            width: size.columns,
            height: size.rows,
        });
        Ok(size
            .filter(|size| size.width > 0 && size.height > 0)
            .unwrap_or(USUAL))
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize {
            columns_rows: self.size()?,
            pixels: Size::ZERO,
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use ratatui_core::buffer::Buffer;
    use ratatui_core::layout::Rect;
    use ratatui_core::style::Style;

    use super::*;

    #[test]
    fn cells_become_moves_styles_and_letters() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 6, 2));
        buffer.set_string(0, 0, "ab", Style::new());
        buffer.set_string(
            2,
            0,
            "c",
            Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        );
        buffer.set_string(4, 1, "d", Style::new().add_modifier(Modifier::REVERSED));
        let changed = Buffer::empty(Rect::new(0, 0, 6, 2))
            .diff(&buffer)
            .into_iter()
            .collect::<Vec<_>>();
        let mut tty = Tty::new(Vec::new());
        tty.draw(changed.into_iter()).expect("memory");
        let shown = String::from_utf8(tty.0)
            .expect("text")
            .replace('\u{1b}', "^");
        assert_eq!(shown, "^[1;1Hab^[0m^[1m^[38;5;1mc^[2;5H^[0m^[7md^[0m");
    }
}
