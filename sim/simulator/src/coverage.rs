//! The coverage of runs: faults, pairs of faults, the reflector's transitions, and the cells of its decision table.

use std::collections::BTreeMap;
use std::fmt;

use crate::decision;
use crate::plan::Action;
use crate::run::{PAIR, pair};
use crate::trace::Counts;

/// The state transitions that a reflector can make. (It also re-enters some states.)
const TRANSITIONS: [&str; 18] = [
    "pending → listing",
    "pending → streaming",
    "streaming → watching",
    "streaming → streaming",
    "streaming → listing",
    "streaming → backing off",
    "listing → opening",
    "listing → backing off",
    "opening → watching",
    "opening → degraded",
    "opening → backing off",
    "watching → opening",
    "watching → backing off",
    "degraded → watching",
    "degraded → backing off",
    "backing off → listing",
    "backing off → streaming",
    "backing off → opening",
];

/// The counts of many runs.
#[derive(Default)]
pub(crate) struct Coverage(Counts);

impl Coverage {
    pub(crate) fn add(&mut self, counts: Counts) {
        for (what, times) in counts {
            *self.0.entry(what).or_default() += times;
        }
    }

    fn times(&self, category: &'static str, name: &str) -> u64 {
        self.0.get(&(category, name.to_owned())).copied().unwrap_or_default()
    }

    /// Everything that runs should cover, by title.
    fn wanted(&self) -> BTreeMap<&'static str, Vec<(String, u64)>> {
        let mut wanted = BTreeMap::<_, Vec<_>>::new();
        let mut want = |title, category, name: String| {
            let times = self.times(category, &name);
            wanted.entry(title).or_default().push((name, times));
        };
        let faults = Action::fault_kinds();
        for (number, one) in faults.iter().enumerate() {
            want("faults", "fault", (*one).to_owned());
            faults[number..].iter().for_each(|two| want("pairs of faults", PAIR, pair(one, two)));
        }
        TRANSITIONS.iter().for_each(|name| want("transitions", "transition", (*name).to_owned()));
        decision::cells().for_each(|cell| want("cells of the decision table", decision::CELL, cell));
        wanted
    }

    fn write_category(&self, f: &mut fmt::Formatter<'_>, title: &str, category: &str) -> fmt::Result {
        writeln!(f, "\n{title}")?;
        for ((_, name), times) in self.0.iter().filter(|((of, _), _)| *of == category) {
            writeln!(f, "{times:>10}  {name}")?;
        }
        Ok(())
    }

    fn write_decisions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\ndecision table\n{:<28}", "")?;
        decision::COLUMNS.iter().try_for_each(|column| write!(f, " {column:>16}"))?;
        writeln!(f)?;
        for row in decision::ROWS {
            write!(f, "{row:<28}")?;
            for column in decision::COLUMNS {
                write!(f, " {:>16}", self.times(decision::CELL, &decision::cell(row, column)))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    /// Writes a triangle. The number of a fault is its row and its column.
    fn write_pairs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = Action::fault_kinds();
        writeln!(f, "\npairs of faults within 3 s of each other, by number")?;
        for (row, one) in faults.iter().enumerate() {
            write!(f, "{row:>3} {one:<36}")?;
            for two in &faults[..=row] {
                write!(f, " {:>5}", self.times(PAIR, &pair(one, two)))?;
            }
            writeln!(f)?;
        }
        write!(f, "{:<40}", "")?;
        (0..faults.len()).try_for_each(|column| write!(f, " {column:>5}"))?;
        writeln!(f)
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_category(f, "faults that took effect", "fault")?;
        self.write_category(f, "reflector transitions", "transition")?;
        self.write_decisions(f)?;
        self.write_category(f, "other reflector errors", "other error")?;
        self.write_pairs(f)?;
        self.write_category(f, "events", "event")?;
        self.write_category(f, "completed waits", "wait")?;
        self.write_category(f, "reconciles", "reconcile")?;
        self.write_category(f, "leadership terms", "term")?;
        self.write_category(f, "slots of replicas that share the work", crate::share::SHARE)?;
        self.write_category(f, "other steps", "step")?;
        self.write_category(f, "excuses of the oracle", "excuse")?;
        writeln!(f, "\ncoverage")?;
        for (title, names) in self.wanted() {
            let missed = names.iter().filter(|(_, times)| *times == 0).map(|(name, _)| name.as_str());
            let missed = missed.collect::<Vec<_>>();
            let hit = names.len() - missed.len();
            let fewest = names.iter().map(|(_, times)| *times).min().unwrap_or_default();
            write!(f, "{:>10}  of {} {title}; rarest: {fewest} times", hit, names.len())?;
            match missed.len() {
                0 => writeln!(f)?,
                1..=12 => writeln!(f, "; never: {}", missed.join("; "))?,
                more => writeln!(f, "; never: {more} of them")?,
            }
        }
        writeln!(f)
    }
}
