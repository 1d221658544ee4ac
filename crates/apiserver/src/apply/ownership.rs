//! Field ownership after a write.
//!
//! There are two ways to own fields. Applying a configuration owns all fields that it sets; setting a field to a value
//! that differs from its other owners' is a conflict. Any other write owns the fields it changes and takes them from
//! their previous owners. A field is removed when an applier no longer sets it and it has no other owner.

use std::sync::LazyLock;

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

/// Fields that have no owner: the server's own, and those that identify the object.
static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
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
});

/// The context of a write. `old` and `new` are normalized and have no managedFields.
pub(crate) struct Ledger<'a> {
    pub(crate) types: TypeView<'a>,
    pub(crate) api_version: &'a str,
    pub(crate) now: &'a str,
    /// Fields that this kind of write cannot set.
    pub(crate) reset: FieldSet,
}

/// The outcome of an apply.
pub(crate) struct Applied {
    pub(crate) object: Value,
    pub(crate) managed: Managed,
}

impl Ledger<'_> {
    /// Records a write other than apply: the writer becomes the owner of the changed fields.
    pub(crate) fn update(&self, old: &Value, new: &Value, managed: &mut Managed, writer: Manager) {
        let comparison = self.compare(old, new);
        self.reconcile(managed);
        // Forced, so this cannot fail.
        let _ = settle(managed, &comparison, None, true);
        let taken = comparison.changed().recursive_difference(&self.reset).difference(&NEVER_OWNED);
        if !taken.is_empty() {
            let before = managed.0.get(&writer).map_or_else(FieldSet::default, |owned| owned.fields.clone());
            let fields = taken.union(&before);
            // A kube-apiserver records no time for writes to `scale`.
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

        // An apply that changes nothing keeps the time of an existing entry and gives a new entry none.
        let unchanged = same(live, &object);
        if let Some(owned) = managed.0.get_mut(applier) {
            owned.fields = owned.fields.difference(&NEVER_OWNED);
            if !unchanged {
                owned.time = Some(self.now.to_owned());
            }
            if owned.fields.is_empty() {
                managed.0.remove(applier);
            }
        }
        Ok(Applied { object, managed })
    }

    /// Removes fields that the applier set last time, does not set now, and that have no other owner.
    fn prune(&self, merged: &Value, managed: &Managed, last: &FieldSet) -> Value {
        let types = self.types;
        let all = |value: &Value| field_set(types, value).with_declared_fields(types);
        let last = last.with_declared_fields(types);
        let merged_fields = all(merged);

        // Remove what was set last time, except what any manager (including the applier) owns now …
        let owned = managed.0.values().fold(FieldSet::default(), |all, owned| all.union(&owned.fields));
        let kept = all(&remove(types, merged, &last)).union(&owned.with_declared_fields(types));
        let pruned = remove(types, merged, &merged_fields.difference(&kept));

        // … but keep fields that were removed along with those and did not belong to the applier.
        remove(types, merged, &merged_fields.difference(&all(&pruned)).intersection(&last))
    }

    /// A type may have become atomic since the sets were written: the owner of a part then owns the whole.
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

/// Takes changed and removed fields from all managers except the writer. Unless forced, returns the conflicts if
/// another manager would lose a field, and changes nothing.
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
