//! Rows in columns, printed as they come: a column is as wide as the widest cell so far.

/// Between two columns, as kubectl has it.
const GAP: usize = 3;

/// The widths of columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grid {
    widths: Vec<usize>,
}

impl Grid {
    /// Makes room for a row.
    pub(crate) fn fit(&mut self, cells: &[String]) {
        self.widths.resize(self.widths.len().max(cells.len()), 0);
        for (width, cell) in self.widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }

    /// A row, its last cell without blanks behind it. `paint` may put colours around a cell: it is given its place.
    pub(crate) fn row(&mut self, cells: &[String], paint: impl Fn(usize, &str) -> String) -> String {
        self.fit(cells);
        let mut row = String::new();
        let last = cells.iter().rposition(|cell| !cell.is_empty()).unwrap_or(0);
        for (at, cell) in cells.iter().enumerate().take(last + 1) {
            row.push_str(&paint(at, cell));
            if at < last {
                let blanks = self.widths[at] + GAP - cell.chars().count();
                row.extend(std::iter::repeat_n(' ', blanks));
            }
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_nothing_stands_behind_the_last() {
        let mut grid = Grid::default();
        let rows = [["NAME", "AGE"], ["a-long-name", "5s"], ["b", ""]].map(|row| row.map(str::to_owned));
        rows.iter().for_each(|row| grid.fit(row));
        let plain = |_: usize, cell: &str| cell.to_owned();
        let printed = rows.iter().map(|row| grid.row(row, plain)).collect::<Vec<_>>();
        assert_eq!(printed, ["NAME          AGE", "a-long-name   5s", "b"]);
    }
}
