//! A model of 100 replicas that share 5,000,000 objects: how even the shares are, how many slots move, and how many requests the
//! replicas send. It stores no objects and needs no server. docs/scaling.md has its output.
//!
//! `cargo run --release -p kube-informer-controller --example sharing_model`
#![allow(clippy::print_stdout, reason = "an example prints what happens")]

use std::fmt::Write as _;

use kube_informer::Shard;
use kube_informer_controller::LeaseTiming;
use kube_informer_controller::shards::{Replica, assign};
use kube_wire::shard::{hash, slot};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

const REPLICAS: usize = 100;
const OBJECTS: usize = 5_000_000;
/// Changes to the main kind, per second.
const CHANGES: usize = 20_000;
/// Slots whose records share a Lease.
const SLOTS_PER_LEASE: usize = 256;

/// The owners after so many replicas have joined, one after another.
fn owners(replicas: &[Replica], slots: usize) -> Vec<Option<&str>> {
    (1..=replicas.len()).fold(vec![None; slots], |owners, joined| assign(&replicas[..joined], &owners))
}

/// The figures of one replica.
struct Figures {
    slots: usize,
    objects: usize,
    /// The length of its shard selector.
    selector: usize,
    /// The objects that its shard selector covers. A request names at most 32 ranges, so it can cover slots of other replicas.
    covered: usize,
}

impl Figures {
    /// `objects` has the number of objects of each slot.
    fn of(replica: &Replica, owners: &[Option<&str>], objects: &[usize]) -> Self {
        let of = objects.len() as u32;
        let owned = (0..of).zip(owners).filter(|(_, owner)| **owner == Some(replica.name()));
        let shard = Shard::new(owned.map(|(slot, _)| slot), of).expect("the slots exist");
        let selector = shard.selector().expect("each replica has some of the slots");
        // A range begins and ends with a slot, so the first hash of a slot decides.
        let first_hash = |slot: u32| (u128::from(slot) << 64).div_ceil(u128::from(of)) as u64;
        let covered = (0..of).zip(objects).filter(|(slot, _)| selector.matches(first_hash(*slot)));
        Self {
            slots: shard.slots().count(),
            objects: shard.slots().map(|slot| objects[slot as usize]).sum(),
            selector: selector.to_string().len(),
            covered: covered.map(|(_, objects)| objects).sum(),
        }
    }
}

/// The least and the most of a figure, such as `1 – 2`.
fn range(replicas: &[Figures], figure: impl Fn(&Figures) -> usize) -> String {
    let all = || replicas.iter().map(&figure);
    format!("{} – {}", all().min().unwrap_or(0), all().max().unwrap_or(0))
}

/// A uid like those that a server generates.
fn uid(random: &mut StdRng, text: &mut String) {
    let [high, low] = [random.random::<u64>(), random.random()];
    text.clear();
    let _ = write!(
        text,
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    );
}

/// How many objects each slot has, for several numbers of slots.
fn objects_per_slot(numbers: &[u32]) -> Vec<(u32, Vec<usize>)> {
    let mut counts: Vec<_> = numbers.iter().map(|slots| (*slots, vec![0; *slots as usize])).collect();
    let (mut random, mut text) = (StdRng::seed_from_u64(7), String::new());
    for _ in 0..OBJECTS {
        uid(&mut random, &mut text);
        let hash = hash(&text);
        for (slots, objects) in &mut counts {
            objects[slot(hash, *slots) as usize] += 1;
        }
    }
    counts
}

fn main() {
    let replicas: Vec<Replica> = (0..=REPLICAS).map(|number| Replica::new(number.to_string())).collect();
    let (before, after) = (&replicas[..REPLICAS], &replicas[..]);
    println!(
        "| slots | objects per replica | slots per replica | longest selector | events per second | moved when one replica joins | Leases with records |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (slots, objects) in objects_per_slot(&[128, 256, 1024, 4096]) {
        let owned = owners(before, slots as usize);
        let each: Vec<_> = before.iter().map(|replica| Figures::of(replica, &owned, &objects)).collect();
        let longest = each.iter().map(|figures| figures.selector).max().unwrap_or(0);
        let next = owners(after, slots as usize);
        let moved: usize = owned
            .iter()
            .zip(&next)
            .zip(&objects)
            .filter(|((old, new), _)| old != new)
            .map(|(_, objects)| objects)
            .sum();
        println!(
            "| {slots} | {} | {} | {:.1} KB | {} | {moved} objects ({:.2} %) | {} |",
            range(&each, |figures| figures.objects),
            range(&each, |figures| figures.slots),
            longest as f64 / 1e3,
            range(&each, |figures| figures.covered * CHANGES / OBJECTS),
            moved as f64 * 100.0 / OBJECTS as f64,
            (slots as usize).div_ceil(SLOTS_PER_LEASE),
        );
    }
    println!();
    let retry = LeaseTiming::default().retry_period.as_secs_f64();
    let renewals = REPLICAS as f64 / retry;
    println!(
        "renewals: {renewals:.0} updates per second in total, and as many events per second to each replica"
    );
    println!("events per second: changes to the main kind, if the server splits the stream");
    println!("if the replicas filter: {CHANGES} to each replica, {} in total", CHANGES * REPLICAS);
}
