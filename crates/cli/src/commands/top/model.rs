//! The state of the view, and how keys change it.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use kube_informer::{Key, StoredObject};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::changes::{CHANGES_MAX, ChangeLine, Changes};
use super::kinds::{Figures, Kinds};
use super::objects::ObjectList;
use crate::masks;
use crate::output;

/// The list of objects is read again after this time.
const OBJECTS_INTERVAL: Duration = Duration::from_secs(1);
/// Sorting 200,000 objects takes a while: the list is read again after at least this many times as long as reading it took.
const OBJECTS_PAUSE: u32 = 4;
/// Maximum number of characters of a filter.
const FILTER_CHARS_MAX: usize = 100;

/// What to do after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Continue,
    Quit,
}

/// The page that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Kinds,
    /// The objects of the kind with this number.
    Objects(usize),
    /// One object of the kind with this number.
    Object(usize, Key),
}

/// The column that kinds are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SortColumn {
    Kind,
    Objects,
    Bytes,
    Events,
    Lag,
    State,
}

/// The selected row by what it shows, so that it stays selected when rows move.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SelectedRow {
    /// The kind with this number.
    Kind(usize),
    Object(Key),
}

/// The state of the view.
pub(super) struct Model {
    pub(super) url: String,
    pub(super) colours: bool,
    pub(super) page: Page,
    pub(super) sort: SortColumn,
    pub(super) reversed: bool,
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) editing: bool,
    pub(super) help: bool,
    pub(super) paused: bool,
    /// Changes since the pause.
    pub(super) waiting: usize,
    /// The position of the selected row.
    pub(super) selected: usize,
    followed: Option<SelectedRow>,
    /// The first visible row, or the first visible line of an object.
    pub(super) offset: usize,
    /// Rows that fit, as drawn last.
    pub(super) height: usize,
    pub(super) changes: VecDeque<ChangeLine>,
    pub(super) omitted: u64,
    /// The objects of the kind that was opened last.
    pub(super) list: ObjectList,
    /// The lines of the object.
    pub(super) lines: Vec<String>,
    /// The page is read again after this time.
    stale_at: Instant,
}

impl SortColumn {
    pub(super) const ALL: [(Self, &'static str); 6] = [
        (Self::Kind, "KIND"),
        (Self::Objects, "OBJECTS"),
        (Self::Bytes, "MEMORY"),
        (Self::Events, "EVENTS/S"),
        (Self::Lag, "LAG"),
        (Self::State, "STATE"),
    ];

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|(column, _)| *column == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()].0
    }

    /// Text is in ascending order, numbers are in descending order.
    fn compare(self, a: &Figures, b: &Figures) -> Ordering {
        let order = match self {
            Self::Kind => Ordering::Equal,
            Self::Objects => b.objects.cmp(&a.objects),
            Self::Bytes => b.bytes.cmp(&a.bytes),
            Self::Events => b.events_per_second.total_cmp(&a.events_per_second),
            Self::Lag => b.lag.cmp(&a.lag),
            Self::State => a.is_live.cmp(&b.is_live).then_with(|| a.state.cmp(&b.state)),
        };
        order.then_with(|| a.kind.cmp(&b.kind))
    }
}

impl Model {
    pub(super) fn new(url: String, colours: bool) -> Self {
        Self {
            url,
            colours,
            page: Page::Kinds,
            sort: SortColumn::Objects,
            reversed: false,
            filter: String::new(),
            editing: false,
            help: false,
            paused: false,
            waiting: 0,
            selected: 0,
            followed: None,
            offset: 0,
            height: 0,
            changes: VecDeque::new(),
            omitted: 0,
            list: ObjectList::default(),
            lines: Vec::new(),
            stale_at: Instant::now(),
        }
    }

    /// The kinds that pass the filter, in order, with their numbers.
    pub(super) fn kinds<'k>(&self, kinds: &'k Kinds) -> Vec<(usize, &'k Figures)> {
        let passes = |figures: &Figures| self.page != Page::Kinds || figures.kind.contains(&self.filter);
        let mut found =
            kinds.figures().enumerate().filter(|(_, figures)| passes(figures)).collect::<Vec<_>>();
        found.sort_by(|(_, a), (_, b)| self.sort.compare(a, b));
        if self.reversed {
            found.reverse();
        }
        found
    }

    /// Adds new changes. While the list is paused they wait.
    pub(super) fn take_changes(&mut self, changes: &Changes) {
        if self.paused {
            (self.waiting, self.omitted) = changes.waiting();
            return;
        }
        let (lines, omitted) = changes.take();
        (self.waiting, self.omitted) = (0, omitted);
        self.changes.extend(lines);
        let excess = self.changes.len().saturating_sub(CHANGES_MAX);
        self.changes.drain(..excess);
    }

    /// Reads the objects of the page again.
    pub(super) fn refresh(&mut self, kinds: &Kinds) {
        if Instant::now() >= self.stale_at {
            self.read(kinds);
        }
    }

    /// Finds the selected row again after rows have moved. If it is gone, the row in its place is selected.
    pub(super) fn follow(&mut self, kinds: &Kinds) {
        let found = match (&self.page, &self.followed) {
            (Page::Kinds, Some(SelectedRow::Kind(number))) => {
                self.kinds(kinds).iter().position(|(other, _)| other == number)
            }
            (Page::Objects(_), Some(SelectedRow::Object(key))) => self.list.position(key),
            _ => None,
        };
        self.selected = found.unwrap_or(self.selected).min(self.rows(kinds).saturating_sub(1));
        // At the start, the first row is selected while kinds arrive in any order.
        let is_settled = || kinds.figures().all(|figures| figures.is_settled);
        if found.is_none() && (self.page != Page::Kinds || self.followed.is_some() || is_settled()) {
            self.followed = self.selected_row(kinds);
        }
    }

    fn selected_row(&self, kinds: &Kinds) -> Option<SelectedRow> {
        match self.page {
            Page::Kinds => self.kinds(kinds).get(self.selected).map(|(number, _)| SelectedRow::Kind(*number)),
            Page::Objects(_) => {
                self.list.objects.get(self.selected).map(|object| SelectedRow::Object(object.key()))
            }
            Page::Object(..) => None,
        }
    }

    /// Handles a key.
    pub(super) fn key(&mut self, key: KeyEvent, kinds: &Kinds) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Action::Quit;
        }
        let before = self.asked();
        let action = self.press(key.code, kinds);
        // Reading 200,000 objects and sorting them takes a while: not for every key.
        if self.asked() == before {
            self.follow(kinds);
        } else {
            self.read(kinds);
        }
        action
    }

    /// What determines which rows are read, and their order.
    fn asked(&self) -> (Page, String, usize, bool) {
        (self.page.clone(), self.filter.clone(), self.list.column, self.list.reversed)
    }

    fn press(&mut self, code: KeyCode, kinds: &Kinds) -> Action {
        if self.editing {
            self.edit(code);
            return Action::Continue;
        }
        if std::mem::take(&mut self.help) {
            return Action::Continue;
        }
        match code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('/') => self.editing = true,
            KeyCode::Char(key @ ('s' | 'r')) => self.reorder(key == 'r'),
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1, kinds),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1, kinds),
            KeyCode::PageUp => self.move_by(-self.page_rows(), kinds),
            KeyCode::PageDown => self.move_by(self.page_rows(), kinds),
            KeyCode::Home | KeyCode::Char('g') => self.move_by(isize::MIN, kinds),
            KeyCode::End | KeyCode::Char('G') => self.move_by(isize::MAX, kinds),
            KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') => self.open(kinds),
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => self.back(),
            _ => {}
        }
        Action::Continue
    }

    fn edit(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.editing = false,
            KeyCode::Esc => {
                self.editing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) if self.filter.chars().count() < FILTER_CHARS_MAX => self.filter.push(c),
            _ => {}
        }
        self.select_first();
    }

    fn select_first(&mut self) {
        (self.selected, self.offset, self.followed) = (0, 0, None);
    }

    /// Sorts by the next column, or reverses the order. If the first row was selected, it is the first one of the new order.
    fn reorder(&mut self, reverse: bool) {
        match (&self.page, reverse) {
            (Page::Kinds, true) => self.reversed = !self.reversed,
            (Page::Kinds, false) => self.sort = self.sort.next(),
            (Page::Objects(_), true) => self.list.reversed = !self.list.reversed,
            (Page::Objects(_), false) => self.list.sort_by_next(),
            (Page::Object(..), _) => return,
        }
        if self.selected == 0 {
            self.select_first();
        }
    }

    fn page_rows(&self) -> isize {
        isize::try_from(self.height.max(1)).unwrap_or(isize::MAX)
    }

    fn rows(&self, kinds: &Kinds) -> usize {
        match self.page {
            Page::Kinds => self.kinds(kinds).len(),
            Page::Objects(_) => self.list.objects.len(),
            Page::Object(..) => self.lines.len(),
        }
    }

    fn move_by(&mut self, rows: isize, kinds: &Kinds) {
        let last = self.rows(kinds).saturating_sub(1);
        match self.page {
            Page::Object(..) => {
                let last = self.lines.len().saturating_sub(self.height);
                self.offset = self.offset.saturating_add_signed(rows).min(last);
            }
            _ => {
                self.selected = self.selected.saturating_add_signed(rows).min(last);
                self.followed = self.selected_row(kinds);
            }
        }
    }

    fn open(&mut self, kinds: &Kinds) {
        let next = match &self.page {
            Page::Kinds => self.kinds(kinds).get(self.selected).map(|(number, _)| Page::Objects(*number)),
            Page::Objects(number) => {
                self.list.objects.get(self.selected).map(|object| Page::Object(*number, object.key()))
            }
            Page::Object(..) => None,
        };
        if let Some(Page::Objects(number)) = next {
            self.list = ObjectList::of(kinds, number);
        }
        if let Some(next) = next {
            self.show(next);
        }
    }

    /// Shows the page before, with the row selected that was opened.
    fn back(&mut self) {
        match self.page.clone() {
            Page::Kinds => self.filter.clear(),
            Page::Objects(number) => {
                self.show(Page::Kinds);
                self.followed = Some(SelectedRow::Kind(number));
            }
            Page::Object(number, key) => {
                self.show(Page::Objects(number));
                self.followed = Some(SelectedRow::Object(key));
            }
        }
    }

    fn show(&mut self, page: Page) {
        self.page = page;
        self.filter.clear();
        self.select_first();
        self.lines.clear();
    }

    /// Reads what the page shows. Only the object that is shown is decoded.
    fn read(&mut self, kinds: &Kinds) {
        let started = Instant::now();
        match &self.page {
            Page::Kinds => self.list = ObjectList::default(),
            Page::Objects(number) => self.list.read(kinds, *number, &self.filter),
            Page::Object(number, key) => {
                let view = kinds.mirror(*number).informer.lister().view();
                match view.snapshot().get(key).map(StoredObject::decode::<serde_json::Value>) {
                    Some(Ok(mut object)) => {
                        masks::mask(&mut object);
                        masks::mask_last_applied(&mut object);
                        self.lines = output::yaml(&object).lines().map(str::to_owned).collect();
                    }
                    Some(Err(error)) => self.lines = vec![error.to_string()],
                    // The last state stays on the screen.
                    None => {
                        let gone = "# deleted";
                        if self.lines.first().is_none_or(|line| line != gone) {
                            self.lines.insert(0, gone.to_owned());
                        }
                    }
                }
            }
        }
        self.stale_at = Instant::now() + OBJECTS_INTERVAL.max(OBJECTS_PAUSE * started.elapsed());
        self.follow(kinds);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use embedded_apiserver::Server;
    use serde_json::json;

    use super::*;
    use crate::testing;

    /// A server with three ConfigMaps, and the kinds of a view that mirrors them.
    async fn config_maps() -> (Server, Kinds) {
        let map = |name| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": name}});
        let (server, mirrors) = testing::config_maps(["a", "b", "c"].map(map).to_vec(), 1).await;
        let mut kinds = Kinds::default();
        for mirror in mirrors {
            kinds.add(mirror, &Arc::default()).unwrap();
        }
        kinds.sample();
        (server, kinds)
    }

    #[tokio::test]
    async fn objects_are_read_again_only_for_keys_that_change_the_rows() {
        let (_server, kinds) = config_maps().await;
        let mut model = Model::new(String::new(), false);
        // Returns whether the key has read the page.
        let mut press = |code: KeyCode| {
            let before = model.stale_at;
            assert_eq!(model.key(KeyEvent::from(code), &kinds), Action::Continue);
            let names: Vec<_> = model.list.objects.iter().map(|object| object.name().to_owned()).collect();
            (model.stale_at != before, names.join(" "), model.selected)
        };
        let shown = |is_read: bool, names: &str, selected: usize| (is_read, names.to_owned(), selected);
        assert_eq!(press(KeyCode::Enter), shown(true, "a b c", 0));
        for (code, selected) in
            [(KeyCode::Down, 1), (KeyCode::End, 2), (KeyCode::Up, 1), (KeyCode::PageUp, 0)]
        {
            assert_eq!(press(code), shown(false, "a b c", selected), "{code:?}");
        }
        for code in [KeyCode::Char('?'), KeyCode::Char('x'), KeyCode::Char(' ')] {
            assert_eq!(press(code), shown(false, "a b c", 0), "{code:?}");
        }
        assert_eq!(press(KeyCode::Char('r')), shown(true, "c b a", 0));
        assert_eq!(press(KeyCode::Char('s')), shown(true, "c b a", 0));
        assert_eq!(press(KeyCode::Char('/')), shown(false, "c b a", 0));
        assert_eq!(press(KeyCode::Char('b')), shown(true, "b", 0));
        assert_eq!(press(KeyCode::Enter), shown(false, "b", 0));
        assert_eq!(press(KeyCode::Enter), shown(true, "b", 0), "the object is opened");
        assert_eq!(press(KeyCode::Esc), shown(true, "c b a", 1), "the list of all objects");
    }
}
