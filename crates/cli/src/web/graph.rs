//! `GET /api/v1/graph/RESOURCE/[NAMESPACE/]NAME`: the owners of an object and the objects that it owns, for mirrored kinds.
//!
//! Owners are found by reference, owned objects by reading the owner references of every object: heads only, nothing is
//! unpacked. Depth and size are limited.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use kube_informer::Key;
use kube_informer::StoredObject;
use serde_json::{Value, json};

use super::listing::read_permit;
use super::object::Asked;
use super::{Refusal, Served, routes};

/// Most levels above and below the object.
const LEVELS_MAX: i32 = 4;
/// Most nodes of a graph.
const NODES_MAX: usize = 200;

/// A graph under construction.
struct Graph<'a> {
    served: &'a Served,
    nodes: Vec<Value>,
    edges: Vec<Value>,
    /// Uids of the nodes.
    known: HashSet<String>,
    /// Owned objects that did not fit.
    omitted: usize,
}

pub(super) async fn graph(
    State(served): State<Arc<Served>>,
    Path(parts): Path<Vec<(String, String)>>,
) -> Result<Response, Refusal> {
    let asked = Asked::new(&parts)?;
    let (number, object) = asked.find(&served)?;
    let permit = read_permit(&served)?;
    let drawn = tokio::task::spawn_blocking(move || {
        let mut graph = Graph {
            served: &served,
            nodes: Vec::new(),
            edges: Vec::new(),
            known: HashSet::new(),
            omitted: 0,
        };
        graph.add(number, &object, 0);
        graph.add_owners(&object);
        graph.add_owned(&object);
        drop(permit);
        json!({"nodes": graph.nodes, "edges": graph.edges, "omitted": graph.omitted})
    });
    let drawn = drawn.await.map_err(|_| Refusal::unavailable("the request was cancelled"))?;
    Ok(routes::json(&drawn))
}

impl Graph<'_> {
    /// Adds an object on a level: negative above, positive below the requested object.
    fn add(&mut self, number: usize, object: &StoredObject, level: i32) {
        self.known.insert(object.uid().to_owned());
        let kind = &self.served.mirrors[number].selected.kind;
        self.nodes.push(json!({
            "uid": object.uid(),
            "resource": kind.qualified(),
            "kind": kind.resource.kind,
            "namespace": object.namespace(),
            "name": object.name(),
            "level": level,
            "mirrored": true,
            "deleting": object.is_deleting(),
        }));
    }

    fn add_owners(&mut self, object: &StoredObject) {
        let mut level = vec![object.clone()];
        for number in 1..=LEVELS_MAX {
            let mut above = Vec::new();
            for object in &level {
                above.extend(self.add_owners_of(object, -number));
            }
            if above.is_empty() {
                return;
            }
            level = above;
        }
    }

    /// Adds the owners of one object; returns those that are mirrored.
    fn add_owners_of(&mut self, object: &StoredObject, level: i32) -> Vec<StoredObject> {
        let mut found = Vec::new();
        for owner in object.owners() {
            if self.nodes.len() >= NODES_MAX {
                self.omitted += 1;
                continue;
            }
            self.edges.push(json!({"owner": owner.uid, "owned": object.uid()}));
            if !self.known.insert(owner.uid.clone().into_owned()) {
                continue;
            }
            match self.find(&owner.kind, object.namespace(), &owner.name, &owner.uid) {
                Some((number, owner)) => {
                    self.add(number, &owner, level);
                    found.push(owner);
                }
                None => self.nodes.push(json!({
                    "uid": owner.uid, "kind": owner.kind, "namespace": object.namespace(), "name": owner.name,
                    "level": level, "mirrored": false,
                })),
            }
        }
        found
    }

    /// The mirrored object that a reference names: in the same namespace, or cluster-scoped.
    fn find(&self, kind: &str, namespace: &str, name: &str, uid: &str) -> Option<(usize, StoredObject)> {
        let mirrors = self.served.mirrors.iter().enumerate();
        let mut of_kind = mirrors.filter(|(_, mirror)| mirror.selected.kind.resource.kind == kind);
        of_kind.find_map(|(number, mirror)| {
            let view = mirror.informer.lister().view();
            let namespace = if mirror.selected.kind.namespaced { namespace } else { "" };
            let object = view.snapshot().get(&Key::new(namespace, name))?;
            (object.uid() == uid).then(|| (number, object.clone()))
        })
    }

    fn add_owned(&mut self, object: &StoredObject) {
        let mut owners = HashSet::from([object.uid().to_owned()]);
        for level in 1..=LEVELS_MAX {
            let mut owned = HashMap::new();
            for (number, mirror) in self.served.mirrors.iter().enumerate() {
                let view = mirror.informer.lister().view();
                for object in view.snapshot().iter() {
                    if let Some(owner) = object.owners().find(|owner| owners.contains(&*owner.uid)) {
                        owned.insert(
                            object.uid().to_owned(),
                            (number, object.clone(), owner.uid.into_owned()),
                        );
                    }
                }
            }
            let mut owned: Vec<_> = owned.into_values().collect();
            owned.sort_unstable_by(|(a, x, _), (b, y, _)| (a, x.key().as_str()).cmp(&(b, y.key().as_str())));
            owners.clear();
            for (number, object, owner) in owned {
                if self.known.contains(object.uid()) {
                    continue;
                }
                if self.nodes.len() >= NODES_MAX {
                    self.omitted += 1;
                    continue;
                }
                self.edges.push(json!({"owner": owner, "owned": object.uid()}));
                self.add(number, &object, level);
                owners.insert(object.uid().to_owned());
            }
            if owners.is_empty() {
                return;
            }
        }
    }
}
