//! Who owns what after a write.
//!
//! Two ways to own fields: applying a configuration owns all that it names, and to give one of them another value than
//! its other owners is a conflict; any other write owns what it changed and takes it from all who owned it. A field goes
//! away when an applier no longer names it and nobody else owns it.

use serde_json::Value;

use super::{
    compare::{Comparison, compare},
    conflict::Conflict,
    extent::{field_set, remove},
    managed::{Managed, Manager, OwnedFields},
    merge::merge,
    path::same,
    set::FieldSet,
    types::TypeView,
};

/// Fields that are nobody's: the server's own, and those that name the object.
fn never_owned() -> FieldSet {
    FieldSet::of(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
}

/// What both kinds of write need to know. `old` and `new` are without managedFields and in normal form.
pub(crate) struct Ledger<'a> {
    pub(crate) types: TypeView<'a>,
    pub(crate) api_version: &'a str,
    pub(crate) now: &'a str,
    /// Fields that this way of writing cannot set.
    pub(crate) reset: FieldSet,
}

/// What came of an apply.
pub(crate) struct Applied {
    pub(crate) object: Value,
    pub(crate) managed: Managed,
}

impl Ledger<'_> {
    /// Records a write that is no apply: what changed goes over to the writer.
    pub(crate) fn update(&self, old: &Value, new: &Value, managed: &mut Managed, writer: Manager) {
        let comparison = self.compare(old, new);
        self.reconcile(managed);
        // Forced, so that there is nothing to refuse.
        let _ = settle(managed, &comparison, None, true);
        let taken = comparison.changed().recursive_difference(&self.reset).difference(&never_owned());
        if !taken.is_empty() {
            let before = managed.0.get(&writer).map_or_else(FieldSet::default, |owned| owned.fields.clone());
            let fields = taken.union(&before);
            // A kube-apiserver keeps no times of scaling.
            let time = Some(self.now.to_owned()).filter(|_| writer.subresource != "scale");
            managed.0.insert(writer, self.owned(fields, time));
        }
        managed.cap();
    }

    /// Applies a configuration.
    pub(crate) fn apply(
        &self,
        live: &Value,
        config: &Value,
        mut managed: Managed,
        applier: &Manager,
        force: bool,
    ) -> Result<Applied, Vec<Conflict>> {
        self.reconcile(&mut managed);
        let merged = merge(self.types, live, config);
        let last = managed.0.remove(applier);
        let named = field_set(self.types, config).recursive_difference(&self.reset);
        let time = last.as_ref().and_then(|last| last.time.clone());
        managed.0.insert(applier.clone(), self.owned(named, time));

        let object = match &last {
            Some(last) if !last.fields.is_empty() => self.prune(&merged, &managed, &last.fields),
            _ => merged,
        };
        let comparison = self.compare(live, &object);
        settle(&mut managed, &comparison, Some(applier), force)?;

        // An apply that changes nothing leaves the time of the entry, and makes a new one without.
        let unchanged = same(live, &object);
        if let Some(owned) = managed.0.get_mut(applier) {
            owned.fields = owned.fields.difference(&never_owned());
            if !unchanged {
                owned.time = Some(self.now.to_owned());
            }
            if owned.fields.is_empty() {
                managed.0.remove(applier);
            }
        }
        Ok(Applied { object, managed })
    }

    /// Takes away what the applier named last time, does not name now, and nobody else owns.
    fn prune(&self, merged: &Value, managed: &Managed, last: &FieldSet) -> Value {
        let types = self.types;
        let all = |value: &Value| field_set(types, value).with_declared_fields(types);
        let last = last.with_declared_fields(types);
        let merged_fields = all(merged);

        // Without what was named last time, but with what anybody (the applier too) owns now …
        let owned = managed.0.values().fold(FieldSet::default(), |all, owned| all.union(&owned.fields));
        let kept = all(&remove(types, merged, &last)).union(&owned.with_declared_fields(types));
        let pruned = remove(types, merged, &merged_fields.difference(&kept));

        // … and with what went along although it was not the applier's.
        remove(types, merged, &merged_fields.difference(&all(&pruned)).intersection(&last))
    }

    /// A type may have become atomic since the sets were written: who owned a part owns the whole then.
    fn reconcile(&self, managed: &mut Managed) {
        for owned in managed.0.values_mut() {
            owned.fields = super::reconcile::reconcile(self.types, &owned.fields);
        }
    }

    fn compare(&self, old: &Value, new: &Value) -> Comparison {
        compare(self.types, old, new).excluding(&self.reset)
    }

    fn owned(&self, fields: FieldSet, time: Option<String>) -> OwnedFields {
        OwnedFields { fields, api_version: self.api_version.to_owned(), time }
    }
}

/// Takes what changed and what is gone from everybody but the writer; refuses if that would take something from
/// somebody and is not forced. Nothing is changed when refused.
fn settle(
    managed: &mut Managed,
    comparison: &Comparison,
    writer: Option<&Manager>,
    force: bool,
) -> Result<(), Vec<Conflict>> {
    let changed = comparison.changed();
    let others = || managed.0.iter().filter(|&(manager, _)| Some(manager) != writer);
    if !force {
        let conflicts: Vec<_> = others()
            .flat_map(|(manager, owned)| {
                let taken = owned.fields.intersection(&changed).paths();
                taken.into_iter().map(|path| Conflict::new(manager.clone(), path))
            })
            .collect();
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
    }
    for (manager, owned) in &mut managed.0 {
        if Some(manager) != writer {
            owned.fields = owned.fields.difference(&changed).difference(&comparison.removed);
        }
    }
    managed.0.retain(|_, owned| !owned.fields.is_empty());
    Ok(())
}
