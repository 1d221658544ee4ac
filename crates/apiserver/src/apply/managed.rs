//! `metadata.managedFields`: reading and writing field owners.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::set::FieldSet;

/// Maximum number of update entries per object; older ones are merged.
const UPDATE_ENTRIES_MAX: usize = 10;
/// The manager name of the merged older entries.
const OLD_UPDATES: &str = "ancient-changes";

/// How a manager came to own fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ManagerOperation {
    /// It applied a configuration.
    Apply,
    /// It wrote the object in any other way.
    Update,
}

/// The identity of an entry. The order of the members is the tie-breaking order of entries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Manager {
    pub(crate) name: String,
    pub(crate) operation: ManagerOperation,
    /// Empty for appliers: an applier that switches to another version keeps its entry.
    pub(crate) api_version: String,
    pub(crate) subresource: String,
}

/// The fields that a manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnedFields {
    pub(crate) fields: FieldSet,
    pub(crate) api_version: String,
    pub(crate) time: Option<String>,
}

/// All entries of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Managed(pub(crate) BTreeMap<Manager, OwnedFields>);

// === impl ManagerOperation ===

impl ManagerOperation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

// === impl Manager ===

impl Manager {
    pub(crate) fn new(name: &str, operation: ManagerOperation, api_version: &str, subresource: &str) -> Self {
        let api_version = if operation == ManagerOperation::Apply { "" } else { api_version };
        Self {
            name: if name.is_empty() { "unknown" } else { name }.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }
}

// === impl Managed ===

impl Managed {
    /// Reads an object's entries.
    ///
    /// # Errors
    ///
    /// Returns an error, in the wording of a kube-apiserver, if an entry is malformed.
    pub(crate) fn of(object: &Value) -> Result<Self, String> {
        let mut managed = Self::default();
        for (at, entry) in entries(object).into_iter().flatten().enumerate() {
            let text = |name| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => ManagerOperation::Apply,
                "Update" => ManagerOperation::Update,
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            if text("apiVersion").is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {at}")),
                other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {at}")),
            }
            let fields = match entry.get("fieldsV1").filter(|fields| !fields.is_null()) {
                Some(fields) => FieldSet::from_fields_v1(fields).map_err(|error| error.to_string())?,
                None => FieldSet::default(),
            };
            let mut manager =
                Manager::new(text("manager"), operation, text("apiVersion"), text("subresource"));
            text("manager").clone_into(&mut manager.name);
            let time = entry.get("time").and_then(Value::as_str).map(str::to_owned);
            managed
                .0
                .insert(manager, OwnedFields { fields, api_version: text("apiVersion").to_owned(), time });
        }
        Ok(managed)
    }

    /// The entries for an update: the request's, if it sends any, otherwise the stored object's. A request for a
    /// subresource cannot change them. An empty list or a single empty entry clears them.
    pub(crate) fn for_update(old: Option<&Value>, new: &Value, subresource: bool) -> Self {
        let old = || old.and_then(|old| Self::of(old).ok()).unwrap_or_default();
        if subresource {
            return old();
        }
        if asks_to_forget(new) {
            return Self::default();
        }
        match Self::of(new) {
            Ok(managed) if !managed.0.is_empty() => managed,
            _ => old(),
        }
    }

    /// Writes the entries to an object, in order: appliers first, then by time, then by name.
    pub(crate) fn write(&self, object: &mut Value) {
        remove_entries(object);
        if self.0.is_empty() {
            return;
        }
        let mut sorted: Vec<_> = self.0.iter().collect();
        sorted.sort_by(|(a, a_owned), (b, b_owned)| {
            (a.operation, &a_owned.time, &a.name, &a_owned.api_version, &a.subresource).cmp(&(
                b.operation,
                &b_owned.time,
                &b.name,
                &b_owned.api_version,
                &b.subresource,
            ))
        });
        let entries = sorted.into_iter().map(|(manager, owned)| encode(manager, owned)).collect();
        if let Some(object) = object.as_object_mut() {
            let metadata = object.entry("metadata").or_insert_with(|| json!({}));
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("managedFields".to_owned(), Value::Array(entries));
            }
        }
    }

    /// Merges the oldest update entries, one per version, until the limit is met.
    pub(crate) fn cap(&mut self) {
        let mut updaters: Vec<_> = self
            .0
            .iter()
            .filter(|(manager, _)| manager.operation == ManagerOperation::Update)
            .map(|(manager, owned)| (owned.time.clone(), manager.clone()))
            .collect();
        updaters.sort();
        let mut left = updaters.len();
        let mut first_of_version: BTreeMap<String, Manager> = BTreeMap::new();
        for (time, manager) in updaters {
            if left <= UPDATE_ENTRIES_MAX {
                return;
            }
            let Some(owned) = self.0.get(&manager) else { continue };
            let version = owned.api_version.clone();
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, manager);
                continue;
            };
            let bucket = Manager::new(OLD_UPDATES, ManagerOperation::Update, &version, "");
            if !self.0.contains_key(&bucket)
                && let Some(owned) = self.0.remove(first)
            {
                self.0.insert(bucket.clone(), owned);
            }
            if bucket != manager
                && let Some(removed) = self.0.remove(&manager)
                && let Some(owned) = self.0.get_mut(&bucket)
            {
                owned.fields = owned.fields.union(&removed.fields);
                owned.time = time;
                left -= 1;
            }
        }
    }
}

/// Removes an object's entries.
pub(crate) fn remove_entries(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

pub(crate) fn entries(object: &Value) -> Option<&Vec<Value>> {
    object.get("metadata")?.get("managedFields")?.as_array()
}

fn asks_to_forget(object: &Value) -> bool {
    match entries(object).map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

fn encode(manager: &Manager, owned: &OwnedFields) -> Value {
    let mut entry = Map::new();
    if !manager.name.is_empty() {
        entry.insert("manager".to_owned(), json!(manager.name));
    }
    entry.insert("operation".to_owned(), json!(manager.operation.name()));
    entry.insert("apiVersion".to_owned(), json!(owned.api_version));
    if let Some(time) = &owned.time {
        entry.insert("time".to_owned(), json!(time));
    }
    entry.insert("fieldsType".to_owned(), json!("FieldsV1"));
    entry.insert("fieldsV1".to_owned(), owned.fields.to_fields_v1());
    if !manager.subresource.is_empty() {
        entry.insert("subresource".to_owned(), json!(manager.subresource));
    }
    Value::Object(entry)
}
