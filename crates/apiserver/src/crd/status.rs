//! The status of a definition: its accepted names, and whether it is served.

use serde_json::{Map, Value, json};

const NAMES: [&str; 4] = ["plural", "singular", "kind", "listKind"];

/// Accepts a definition's names unless another definition of its group has them, and updates its conditions. A
/// definition with all its names is established. `others` are the other definitions; `now` is RFC 3339 in UTC.
///
/// Returns true if the status changed.
pub fn accept_names<'a>(crd: &mut Value, others: impl IntoIterator<Item = &'a Value>, now: &str) -> bool {
    if !crd.get("status").is_some_and(Value::is_object) {
        let Some(members) = crd.as_object_mut() else { return false };
        members.insert("status".to_owned(), json!({}));
    }
    let before = crd.get("status").cloned();
    let wanted = crd["spec"]["names"].clone();
    let mut accepted = crd["status"]["acceptedNames"].as_object().cloned().unwrap_or_default();
    let taken = Taken::by(crd, others);

    let mut conflict = None;
    for name in NAMES {
        let new = wanted[name].as_str().unwrap_or_default();
        let old = accepted.get(name).and_then(Value::as_str).unwrap_or_default();
        let used = if name.ends_with("ind") { &taken.kinds } else { &taken.resources };
        if new != old && used.iter().any(|used| used == new) {
            conflict = Some((format!("{}Conflict", capitalised(name)), in_use(new)));
        } else if !new.is_empty() || accepted.contains_key(name) {
            accepted.insert(name.to_owned(), json!(new));
        }
        if name == "singular"
            && let Some(found) = short_names(&wanted, &mut accepted, &taken)
        {
            conflict = Some(found);
        }
    }
    set_or_remove(&mut accepted, "categories", wanted.get("categories"));

    let status = crd["status"].as_object().cloned().unwrap_or_default();
    let mut conditions = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let served = conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True");
    let (names, established) = match &conflict {
        None => (
            ("True", "NoConflicts".to_owned(), "no conflicts found".to_owned()),
            Some(("True", "InitialNamesAccepted", "the initial names have been accepted")),
        ),
        Some((reason, message)) => (
            ("False", reason.clone(), message.clone()),
            Some(("False", "NotAccepted", "not all names are accepted")).filter(|_| !served),
        ),
    };
    set_condition(&mut conditions, "NamesAccepted", names.0, &names.1, &names.2, now);
    if let Some((status, reason, message)) = established.filter(|_| !served) {
        set_condition(&mut conditions, "Established", status, reason, message, now);
    }
    crd["status"]["acceptedNames"] = Value::Object(accepted);
    crd["status"]["conditions"] = Value::Array(conditions);
    crd.get("status").cloned() != before
}

/// Names taken by other definitions of the group.
struct Taken {
    resources: Vec<String>,
    kinds: Vec<String>,
}

impl Taken {
    fn by<'a>(crd: &Value, others: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut taken = Self { resources: Vec::new(), kinds: Vec::new() };
        let same_group = |other: &&Value| {
            other["spec"]["group"] == crd["spec"]["group"]
                && other["metadata"]["name"] != crd["metadata"]["name"]
        };
        for names in others.into_iter().filter(same_group).map(|other| &other["status"]["acceptedNames"]) {
            let text = |name: &str| names[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
            taken.resources.extend(text("plural"));
            taken.resources.extend(text("singular"));
            let short = names["shortNames"].as_array().into_iter().flatten();
            taken.resources.extend(short.filter_map(Value::as_str).map(str::to_owned));
            taken.kinds.extend(text("kind"));
            taken.kinds.extend(text("listKind"));
        }
        taken
    }
}

/// Accepts the short names, or returns an error that lists the taken ones.
fn short_names(wanted: &Value, accepted: &mut Map<String, Value>, taken: &Taken) -> Option<(String, String)> {
    let wanted = wanted.get("shortNames");
    let list = |value: Option<&Value>| -> Vec<String> {
        let items = value.and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let ours = list(accepted.get("shortNames"));
    let used: Vec<_> = list(wanted)
        .into_iter()
        .filter(|name| !ours.contains(name) && taken.resources.contains(name))
        .map(|name| in_use(&name))
        .collect();
    match used.as_slice() {
        [] => {
            set_or_remove(accepted, "shortNames", wanted);
            None
        }
        [only] => Some(("ShortNamesConflict".to_owned(), only.clone())),
        many => Some(("ShortNamesConflict".to_owned(), format!("[{}]", many.join(", ")))),
    }
}

fn set_or_remove(names: &mut Map<String, Value>, name: &str, value: Option<&Value>) {
    match value.filter(|value| !value.is_null()) {
        Some(value) => names.insert(name.to_owned(), value.clone()),
        None => names.remove(name),
    };
}

fn set_condition(
    conditions: &mut Vec<Value>,
    ty: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) {
    let old = conditions.iter_mut().find(|condition| condition["type"] == ty);
    let same = old.as_ref().filter(|old| old["status"] == status);
    let since = same.map_or_else(|| json!(now), |old| old["lastTransitionTime"].clone());
    let new = json!({
        "type": ty, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    });
    match old {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

fn in_use(name: &str) -> String {
    format!("{} is already in use", crate::apply::go::quote(name))
}

fn capitalised(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
