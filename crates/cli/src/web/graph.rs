//! `GET /api/v1/graph/RESOURCE/[NAMESPACE/]NAME`: the owners of an object and the objects that it owns, for mirrored kinds.
//!
//! Owners are found by reference, owned objects by reading the owner references of every object: heads only, nothing is
//! unpacked. Depth and size are limited.

use std::collections::{BTreeMap, HashSet};
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
        let mut graph = Graph::new(&served);
        graph.add(number, &object, 0);
        graph.add_owners(&object);
        graph.add_owned(object.uid());
        drop(permit);
        json!({"nodes": graph.nodes, "edges": graph.edges, "omitted": graph.omitted})
    });
    let drawn = drawn.await.map_err(|_| Refusal::unavailable("the request was cancelled"))?;
    Ok(routes::json(&drawn))
}

impl<'a> Graph<'a> {
    fn new(served: &'a Served) -> Self {
        Self { served, nodes: Vec::new(), edges: Vec::new(), known: HashSet::new(), omitted: 0 }
    }

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

    /// Adds the objects that the object with this uid owns.
    fn add_owned(&mut self, uid: &str) {
        let mut owners = HashSet::from([uid.to_owned()]);
        for number in 1..=LEVELS_MAX {
            let level = self.owned_by(&owners);
            self.omitted += level.omitted;
            owners.clear();
            for ((mirror, _), (object, owner)) in level.kept {
                if self.known.contains(object.uid()) {
                    continue;
                }
                self.edges.push(json!({"owner": owner, "owned": object.uid()}));
                self.add(mirror, &object, number);
                owners.insert(object.uid().to_owned());
            }
            if owners.is_empty() {
                return;
            }
        }
    }

    /// The objects that these owners own, without those in the graph.
    fn owned_by(&self, owners: &HashSet<String>) -> Level {
        let mut level = Level::new(NODES_MAX.saturating_sub(self.nodes.len()));
        for (number, mirror) in self.served.mirrors.iter().enumerate() {
            let view = mirror.informer.lister().view();
            for object in view.snapshot().iter() {
                let mut owned_by = object.owners().filter(|owner| owners.contains(&*owner.uid));
                if let Some(owner) = owned_by.next()
                    && !self.known.contains(object.uid())
                {
                    level.add(number, object, &owner.uid);
                }
            }
        }
        level
    }
}

/// The objects of one level, the first ones by the number of their mirror and their key. An owner can own every object of a cluster:
/// objects beyond the limit are only counted.
struct Level {
    /// Objects with the uids of their owners.
    kept: BTreeMap<(usize, Key), (StoredObject, String)>,
    capacity: usize,
    omitted: usize,
}

impl Level {
    fn new(capacity: usize) -> Self {
        Self { kept: BTreeMap::new(), capacity, omitted: 0 }
    }

    fn add(&mut self, number: usize, object: &StoredObject, owner: &str) {
        let key = (number, object.key());
        if self.kept.len() >= self.capacity {
            self.omitted += 1;
            if self.kept.last_key_value().is_none_or(|(last, _)| *last < key) {
                return;
            }
            self.kept.pop_last();
        }
        self.kept.insert(key, (object.clone(), owner.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn map(name: &str, owner: Option<&str>) -> Value {
        let owner =
            owner.map(|uid| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}));
        let owners = owner.into_iter().collect::<Vec<_>>();
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "default", "name": name, "ownerReferences": owners}})
    }

    #[tokio::test]
    async fn owned_objects_beyond_the_limit_are_counted_but_not_held() {
        let maps = (0..300).map(|number| map(&format!("map-{number:03}"), None)).collect();
        let (_server, served) = testing::config_maps(maps).await;
        let view = served.mirrors[0].informer.lister().view();
        for capacity in [0, 1, 200, 300, 400] {
            let mut level = Level::new(capacity);
            for (number, object) in view.snapshot().iter().enumerate() {
                level.add(0, object, "owner");
                assert_eq!(level.kept.len(), capacity.min(number + 1));
            }
            let names: Vec<_> = level.kept.values().map(|(object, _)| object.name().to_owned()).collect();
            let first: Vec<_> = (0..capacity.min(300)).map(|number| format!("map-{number:03}")).collect();
            assert_eq!((names, level.omitted), (first, 300 - capacity.min(300)));
        }
    }

    #[tokio::test]
    async fn a_graph_has_the_first_owned_objects_and_the_number_of_the_others() {
        let uid = "00000000-0000-4000-8000-000000000001";
        let maps = (0..300).map(|number| map(&format!("map-{number:03}"), Some(uid))).collect();
        let (_server, served) = testing::config_maps(maps).await;
        let mut graph = Graph::new(&served);
        graph.add_owned(uid);
        assert_eq!((graph.nodes.len(), graph.edges.len(), graph.omitted), (NODES_MAX, NODES_MAX, 100));
        assert_eq!([&graph.nodes[0]["name"], &graph.nodes[199]["name"]], ["map-000", "map-199"]);
    }
}
