//! Pruning: removes members of a custom resource that its schema neither declares nor preserves.

use kube_wire::schema::Schema;
use serde_json::{Map, Value};

use super::Structural;

/// Removes undeclared members and returns their paths, sorted, in the form used by warnings: `spec.extra`,
/// `spec.list[0].extra`. `apiVersion`, `kind` and `metadata` are always declared.
pub fn prune(object: &mut Value, schema: &Structural) -> Vec<String> {
    let mut pruning = Pruning { path: String::new(), unknown: Vec::new() };
    pruning.value(object, Some(schema), true);
    pruning.unknown.sort();
    pruning.unknown
}

struct Pruning {
    path: String,
    unknown: Vec<String>,
}

impl Pruning {
    fn value(&mut self, value: &mut Value, schema: Option<&Structural>, resource: bool) {
        match value {
            Value::Object(members) => self.object(members, schema, resource),
            Value::Array(items) => {
                let schema = schema.and_then(|schema| match schema.items.as_deref() {
                    None if schema.preserve_unknown => Some(schema),
                    items => items,
                });
                for (at, item) in items.iter_mut().enumerate() {
                    let resource = schema.is_some_and(|schema| schema.embedded_resource);
                    self.inside(&format!("[{at}]"), |pruning| pruning.value(item, schema, resource));
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, members: &mut Map<String, Value>, schema: Option<&Structural>, resource: bool) {
        let mut unknown = Vec::new();
        for (name, member) in members.iter_mut() {
            if resource && matches!(name.as_str(), "apiVersion" | "kind") {
                continue;
            }
            let step = self.step(name);
            if resource && name == "metadata" {
                self.inside(&step, |pruning| pruning.metadata(member));
                continue;
            }
            let known = schema.and_then(|schema| match schema.properties.get(name) {
                Some(property) => Some(property),
                None => schema.additional.as_deref(),
            });
            match known {
                Some(known) => {
                    self.inside(&step, |pruning| pruning.value(member, Some(known), known.embedded_resource));
                }
                None if schema.is_some_and(|schema| schema.preserve_unknown) => {}
                None => unknown.push(name.clone()),
            }
        }
        for name in unknown {
            members.remove(&name);
            self.unknown.push(format!("{}{}", self.path, self.step(&name)));
        }
    }

    /// Metadata is always declared, but only with its standard members.
    fn metadata(&mut self, metadata: &mut Value) {
        let known = Schema::builtin().message("k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta");
        let (Some(known), Value::Object(members)) = (known, metadata) else { return };
        let unknown: Vec<_> =
            members.keys().filter(|name| known.field_named(name).is_none()).cloned().collect();
        for name in unknown {
            members.remove(&name);
            self.unknown.push(format!("{}{}", self.path, self.step(&name)));
        }
        if members.get("creationTimestamp").is_some_and(Value::is_null) {
            members.remove("creationTimestamp");
        }
    }

    fn step(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!(".{name}") }
    }

    fn inside(&mut self, step: &str, work: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(step);
        work(self);
        self.path.truncate(length);
    }
}
