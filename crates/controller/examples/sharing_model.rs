//! A model of 100 replicas that share 5,000,000 objects: how even the shares are, how many slots move, and how many requests the
//! replicas send. It stores no objects and needs no server. docs/scaling.md has its output.
//!
//! `cargo run --release -p kube-informer-controller --example sharing_model`
#![allow(clippy::print_stdout, reason = "an example prints what happens")]

use std::fmt::Write as _;

use kube_informer_controller::LeaseTiming;
use kube_informer_controller::shards::{Replica, assign};
use kube_wire::shard::{ShardField, ShardSelector, hash, slot};
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

/// How many objects each replica has.
fn shares(owners: &[Option<&str>], objects: &[usize], replicas: &[Replica]) -> Vec<usize> {
    let share = |replica: &Replica| {
        let owned = owners.iter().zip(objects).filter(|(owner, _)| **owner == Some(replica.name()));
        owned.map(|(_, objects)| objects).sum()
    };
    replicas.iter().map(share).collect()
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
        "| slots | objects per replica | slots per replica | longest selector | moved when one replica joins | Leases with records |"
    );
    println!("|---|---|---|---|---|---|");
    for (slots, objects) in objects_per_slot(&[128, 256, 1024, 4096]) {
        let owned = owners(before, slots as usize);
        let shares = shares(&owned, &objects, before);
        let (least, most) = (shares.iter().min().unwrap_or(&0), shares.iter().max().unwrap_or(&0));
        let mut slots_each = Vec::new();
        let mut longest = 0;
        for replica in before {
            let mine: Vec<u32> = (0..)
                .zip(&owned)
                .filter(|(_, owner)| **owner == Some(replica.name()))
                .map(|(slot, _)| slot)
                .collect();
            slots_each.push(mine.len());
            let selector = ShardSelector::from_slots(ShardField::Uid, mine, slots);
            longest = longest.max(selector.map_or(0, |selector| selector.to_string().len()));
        }
        let next = owners(after, slots as usize);
        let moved: usize = owned
            .iter()
            .zip(&next)
            .zip(&objects)
            .filter(|((old, new), _)| old != new)
            .map(|(_, objects)| objects)
            .sum();
        println!(
            "| {slots} | {least} – {most} | {} – {} | {:.1} KB | {moved} objects ({:.2} %) | {} |",
            slots_each.iter().min().unwrap_or(&0),
            slots_each.iter().max().unwrap_or(&0),
            longest as f64 / 1e3,
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
    println!(
        "changes, if the server splits the stream: {} events per second to each replica",
        CHANGES / REPLICAS
    );
    println!(
        "changes, if the replicas filter: {CHANGES} events per second to each replica, {} in total",
        CHANGES * REPLICAS
    );
}
