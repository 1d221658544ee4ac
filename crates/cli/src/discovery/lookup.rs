//! Resolves command-line arguments to kinds and names: `pods`, `po`, `deploy.apps`, `pods.v1.`, `pod/api`, `pods,services`, `all`.

use super::{Catalogue, Kind};
use crate::failure::Failure;
use crate::suggest;

/// The kinds, and optionally names, from the command line.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Wanted {
    /// Kinds as kubectl names them (pods, po, deploy, deployments.apps, pods.v1., pods,services), a category (all),
    /// KIND/NAME, or `everything`; optionally followed by names of objects.
    #[arg(value_name = "KIND", required = true)]
    pub(crate) what: Vec<String>,
}

/// A kind, or one object of it by name. Several names of a kind are several values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selected {
    pub(crate) kind: Kind,
    pub(crate) name: Option<String>,
    /// The namespace of an object from a file; otherwise the flags select namespaces.
    pub(crate) namespace: Option<String>,
}

impl Wanted {
    /// Whether every kind is selected, including kinds that are installed later.
    pub(crate) fn is_everything(&self) -> bool {
        self.what.iter().any(|what| what == "everything")
    }
}

impl Catalogue {
    /// Resolves the arguments: kinds first; the first argument that is not a kind and all after it are names.
    ///
    /// # Errors
    /// If a kind is unknown (with a suggestion) or cannot be read, or a name is invalid.
    pub(crate) fn select(&self, wanted: &Wanted, verbs: &[&str]) -> Result<Vec<Selected>, Failure> {
        let is_name = |argument: &String| !argument.contains(['/', ',']) && self.find(argument).is_empty();
        let names_at = wanted.what.iter().skip(1).position(is_name).map_or(wanted.what.len(), |at| at + 1);
        let (kinds, names) = wanted.what.split_at(names_at);
        let mut selected: Vec<Selected> = Vec::new();
        for part in kinds.iter().flat_map(|argument| argument.split(',')).filter(|part| !part.is_empty()) {
            let (kind, name) = match part.split_once('/') {
                Some((kind, name)) => (kind, Some(name)),
                None => (part, None),
            };
            if name.is_some() && !names.is_empty() {
                return Err(Failure::Usage(format!(
                    "invalid argument {part}: use either KIND/NAME or KIND NAME, not both"
                )));
            }
            let kinds = self.kinds_of(kind, verbs)?;
            let names = names.iter().map(String::as_str).chain(name).map(Some);
            let names = if names.clone().next().is_none() { vec![None] } else { names.collect() };
            for (kind, name) in kinds.iter().flat_map(|kind| names.iter().map(move |name| (kind, name))) {
                let name = name.map(checked_name).transpose()?;
                let one = Selected { kind: (*kind).clone(), name, namespace: None };
                if !selected.contains(&one) {
                    selected.push(one);
                }
            }
        }
        Ok(selected)
    }

    fn kinds_of(&self, text: &str, verbs: &[&str]) -> Result<Vec<&Kind>, Failure> {
        let mut found = self.find(text);
        if found.len() > 1 {
            // A category skips the kinds that cannot be read.
            found.retain(|kind| verbs.iter().all(|verb| kind.can(verb)));
        }
        let Some(first) = found.first() else { return Err(self.unknown(text)) };
        match verbs.iter().find(|verb| !first.can(verb)) {
            Some(verb) => Err(Failure::Usage(format!(
                "{} has no verb {verb:?}: choose another kind",
                first.qualified()
            ))),
            None => Ok(found),
        }
    }

    /// The kinds that a text names: one kind, or all kinds of a category; empty if there is no match.
    fn find(&self, text: &str) -> Vec<&Kind> {
        if text == "everything" {
            return self.newest(|_| true);
        }
        let (name, qualifier) = text.split_once('.').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let name = name.to_lowercase();
        let named = |kind: &&Kind| {
            name == kind.resource.plural || name == kind.singular || name == kind.resource.kind.to_lowercase()
        };
        let abbreviated = |kind: &&Kind| kind.short_names.contains(&name);
        let qualified = |kind: &&Kind| qualifier.is_none_or(|qualifier| is_qualified(kind, qualifier));
        let one = self.kinds.iter().filter(qualified).find(named);
        let one = one.or_else(|| self.kinds.iter().filter(qualified).find(abbreviated));
        match one {
            Some(one) => vec![one],
            None if qualifier.is_none() => self.newest(|kind| kind.categories.contains(&name)),
            None => Vec::new(),
        }
    }

    /// Each resource once, in its preferred version.
    fn newest(&self, wanted: impl Fn(&Kind) -> bool) -> Vec<&Kind> {
        let mut found: Vec<&Kind> = Vec::new();
        for kind in self.kinds.iter().filter(|kind| wanted(kind)) {
            if !found.iter().any(|known| known.qualified() == kind.qualified()) {
                found.push(kind);
            }
        }
        found
    }

    fn unknown(&self, text: &str) -> Failure {
        let names = self.kinds.iter().flat_map(|kind| {
            let names = [kind.resource.plural.as_str(), kind.singular.as_str()];
            names.into_iter().chain(kind.short_names.iter().map(String::as_str))
        });
        let name = text.split('.').next().unwrap_or(text);
        let hint = match suggest::nearest(name, names.filter(|name| name.len() > 2)) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None => "`kubectl api-resources` lists the available kinds".to_owned(),
        };
        let broken = match self.broken.as_slice() {
            [] => String::new(),
            broken => format!("\n(unavailable API groups: {})", broken.join(", ")),
        };
        Failure::Usage(format!("unknown kind {text:?}: the server does not serve it; {hint}{broken}"))
    }
}

/// A name is part of URLs and field selectors.
pub(super) fn checked_name(name: &str) -> Result<String, Failure> {
    let invalid = matches!(name, "" | "." | "..") || name.contains(['/', '%', ',', '=', '\\']);
    if invalid || name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(Failure::Usage(format!("invalid name {name:?}")));
    }
    Ok(name.to_owned())
}

/// The text after the first dot: `apps` is a group, `v1.apps` a version and a group, `v1.` a version of the core group.
fn is_qualified(kind: &Kind, qualifier: &str) -> bool {
    let versioned = qualifier
        .split_once('.')
        .is_some_and(|(version, group)| kind.resource.version == version && kind.resource.group == group);
    versioned || kind.resource.group == qualifier
}

#[cfg(test)]
mod tests {
    use kube_informer::building_blocks::Resource;

    use super::*;

    fn kind(group: &str, version: &str, plural: &str, kind: &str, short: &[&str], category: &str) -> Kind {
        Kind {
            resource: Resource::new(group, version, plural, kind),
            singular: kind.to_lowercase(),
            short_names: short.iter().map(|&name| name.to_owned()).collect(),
            categories: if category.is_empty() { vec![] } else { vec![category.to_owned()] },
            namespaced: true,
            verbs: vec!["list".to_owned(), "watch".to_owned()],
        }
    }

    fn catalogue() -> Catalogue {
        let mut review = kind("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", &[], "");
        review.verbs = vec!["create".to_owned()];
        let kinds = vec![
            kind("", "v1", "pods", "Pod", &["po"], "all"),
            kind("", "v1", "events", "Event", &["ev"], ""),
            kind("apps", "v1", "deployments", "Deployment", &["deploy"], "all"),
            kind("events.k8s.io", "v1", "events", "Event", &["ev"], ""),
            kind("example.com", "v2", "widgets", "Widget", &["wd"], "all"),
            kind("example.com", "v1", "widgets", "Widget", &["wd"], "all"),
            review,
        ];
        Catalogue { kinds, broken: vec!["metrics.k8s.io/v1beta1".to_owned()] }
    }

    fn select(what: &[&str]) -> Result<Vec<String>, String> {
        let what = Wanted { what: what.iter().map(|&text| text.to_owned()).collect() };
        let selected = catalogue().select(&what, &["list", "watch"]).map_err(|error| error.to_string())?;
        let show = |one: &Selected| {
            let name = one.name.as_ref().map_or(String::new(), |name| format!(" {name}"));
            format!("{}/{}{name}", one.kind.qualified(), one.kind.resource.version)
        };
        Ok(selected.iter().map(show).collect())
    }

    #[test]
    fn kinds_are_found_by_every_name_that_kubectl_accepts() {
        for (written, found) in [
            (&["pods"][..], &["pods/v1"][..]),
            (&["pod"], &["pods/v1"]),
            (&["Pod"], &["pods/v1"]),
            (&["po"], &["pods/v1"]),
            (&["pods.v1."], &["pods/v1"]),
            (&["deploy"], &["deployments.apps/v1"]),
            (&["deploy.apps"], &["deployments.apps/v1"]),
            (&["deployments.v1.apps"], &["deployments.apps/v1"]),
            (&["events"], &["events/v1"]),
            (&["events.events.k8s.io"], &["events.events.k8s.io/v1"]),
            (&["widgets"], &["widgets.example.com/v2"]),
            (&["widgets.v1.example.com"], &["widgets.example.com/v1"]),
            (&["pods,deploy"], &["pods/v1", "deployments.apps/v1"]),
            (&["pods", "deploy", "pods"], &["pods/v1", "deployments.apps/v1"]),
            (&["all"], &["pods/v1", "deployments.apps/v1", "widgets.example.com/v2"]),
            (&["pods", "api-1"], &["pods/v1 api-1"]),
            (&["po/api-1", "deploy/web"], &["pods/v1 api-1", "deployments.apps/v1 web"]),
            (&["pods,deploy", "web"], &["pods/v1 web", "deployments.apps/v1 web"]),
            (&["pods", "api-1", "api-2", "po"], &["pods/v1 api-1", "pods/v1 api-2", "pods/v1 po"]),
            (
                &["pods", "deploy", "a", "b"],
                &["pods/v1 a", "pods/v1 b", "deployments.apps/v1 a", "deployments.apps/v1 b"],
            ),
        ] {
            assert_eq!(select(written).unwrap(), found, "{written:?}");
        }
        assert_eq!(select(&["everything"]).unwrap().len(), 5);
    }

    #[test]
    fn an_unknown_kind_is_reported_with_a_suggestion_and_unavailable_groups() {
        let error = select(&["deploymets"]).unwrap_err();
        assert_eq!(
            error,
            "unknown kind \"deploymets\": the server does not serve it; did you mean deployments?\n\
             (unavailable API groups: metrics.k8s.io/v1beta1)"
        );
        assert!(select(&["pods.v2."]).unwrap_err().contains("unknown kind \"pods.v2.\""));
        assert!(select(&["gateway", "pods"]).unwrap_err().contains("kubectl api-resources"));
        assert!(select(&["tokenreviews"]).unwrap_err().contains("has no verb \"list\""));
    }

    #[test]
    fn invalid_names_are_refused() {
        for what in
            [&["pod/x/y"][..], &["pod/"], &["pods", ".."], &["pods", "a%2fb"], &["pods", "a=b"], &["pod/a b"]]
        {
            let error = select(what).unwrap_err();
            assert!(error.starts_with("invalid name"), "{what:?}: {error}");
        }
        assert!(select(&["pod/a", "b"]).unwrap_err().contains("not both"));
    }
}
