//! Rows in columns, printed as they arrive: a column is as wide as the widest cell so far, up to a limit.

use unicode_width::UnicodeWidthStr as _;

use crate::terminal::{Colour, Line, escape};

/// The space between two columns, as in kubectl.
const GAP: usize = 3;
/// Maximum width of a column, in columns of the terminal. A longer cell is printed in full and shifts only the rest of its own row.
const WIDTH_MAX: usize = 256;

/// The widths of columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grid {
    widths: Vec<usize>,
}

impl Grid {
    /// Widens the columns for a row.
    pub(crate) fn fit(&mut self, cells: &[String]) {
        self.widths.resize(self.widths.len().max(cells.len()), 0);
        for (width, cell) in self.widths.iter_mut().zip(cells) {
            *width = (*width).max(width_of(cell).min(WIDTH_MAX));
        }
    }

    /// A row, without trailing blanks. `paint` returns the colour of the cell at a position.
    pub(crate) fn row(&mut self, cells: &[String], paint: impl Fn(usize) -> Option<Colour>) -> Line {
        self.fit(cells);
        let mut row = Line::default();
        let last = cells.iter().rposition(|cell| !cell.is_empty()).unwrap_or(0);
        for (at, cell) in cells.iter().enumerate().take(last + 1) {
            row.push(cell, paint(at));
            if at < last {
                let blanks = self.widths[at].saturating_sub(width_of(cell)) + GAP;
                row.push(&" ".repeat(blanks), None);
            }
        }
        row
    }
}

/// The printed width of a cell: some characters take two columns of a terminal, others take no column.
fn width_of(cell: &str) -> usize {
    escape::one_line(cell).width()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_the_last_has_no_padding() {
        let mut grid = Grid::default();
        let rows = [["NAME", "AGE"], ["a-long-name", "5s"], ["b", ""]].map(|row| row.map(str::to_owned));
        rows.iter().for_each(|row| grid.fit(row));
        let printed = rows.iter().map(|row| grid.row(row, |_| None).to_string()).collect::<Vec<_>>();
        assert_eq!(printed, ["NAME          AGE", "a-long-name   5s", "b"]);
    }

    #[test]
    fn one_long_cell_does_not_widen_every_row() {
        let mut grid = Grid::default();
        let rows = [["x".repeat(1 << 20), "1".to_owned()], ["short".to_owned(), "2".to_owned()]];
        rows.iter().for_each(|row| grid.fit(row));
        assert_eq!(grid.row(&rows[0], |_| None).to_string(), format!("{}   1", rows[0][0]));
        assert_eq!(grid.row(&rows[1], |_| None).to_string().len(), WIDTH_MAX + GAP + 1);
    }

    #[test]
    fn wide_and_combining_characters_take_the_columns_that_a_terminal_gives_them() {
        let mut grid = Grid::default();
        let rows = [["日本語", "1"], ["cafe\u{301}", "2"], ["abcdef", "3"]].map(|row| row.map(str::to_owned));
        rows.iter().for_each(|row| grid.fit(row));
        let printed = rows.iter().map(|row| grid.row(row, |_| None).to_string()).collect::<Vec<_>>();
        assert_eq!(printed, ["日本語   1", "cafe\u{301}     2", "abcdef   3"]);
    }

    #[test]
    fn controls_are_escaped_before_a_column_is_measured() {
        let mut grid = Grid::default();
        let rows = [["a\x1b]0;b\x07", "1"], ["short", "2"]].map(|row| row.map(str::to_owned));
        rows.iter().for_each(|row| grid.fit(row));
        let printed = rows.iter().map(|row| grid.row(row, |_| None).to_string()).collect::<Vec<_>>();
        assert_eq!(printed, ["a^[]0;b^G   1", "short       2"]);
    }
}
