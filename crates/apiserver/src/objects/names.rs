//! Which names objects may have: the rules of the kind, in the words of kube-apiserver.

use serde_json::Value;

use super::meta;
use crate::crd::FieldError;
use crate::http::Status;
use crate::resources::Resource;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                         and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                         validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                          alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or \
                          'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

const SUBDOMAIN_LENGTH_MAX: usize = 253;
const LABEL_LENGTH_MAX: usize = 63;
/// `generateName` is cut so that its suffix fits.
pub(crate) const GENERATED_BASE_LENGTH_MAX: usize = 58;

#[derive(Clone, Copy)]
enum Rule {
    Subdomain,
    Label,
    Label1035,
    /// One segment of a path.
    Segment,
}

/// Checks the name, or that one will be generated.
pub(crate) fn check(resource: &Resource, object: &Value) -> Result<(), Status> {
    let name = meta::name(object);
    if name.is_empty() {
        let error = FieldError::required("metadata.name", "name or generateName is required");
        return Err(Status::invalid(resource, name, &[error]));
    }
    match problem(rule(resource), name) {
        None => Ok(()),
        Some(detail) => {
            let error = FieldError::invalid("metadata.name", name, detail);
            Err(Status::invalid(resource, name, &[error]))
        }
    }
}

fn rule(resource: &Resource) -> Rule {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => Rule::Label,
        ("", "services") => Rule::Label1035,
        ("rbac.authorization.k8s.io", _) => Rule::Segment,
        _ => Rule::Subdomain,
    }
}

fn problem(rule: Rule, name: &str) -> Option<String> {
    let (length_max, valid, message) = match rule {
        Rule::Subdomain => (SUBDOMAIN_LENGTH_MAX, name.split('.').all(is_label), SUBDOMAIN),
        Rule::Label => (LABEL_LENGTH_MAX, is_label(name), LABEL),
        Rule::Label1035 => (
            LABEL_LENGTH_MAX,
            is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase()),
            LABEL_1035,
        ),
        Rule::Segment => {
            return match name {
                "." | ".." => Some(format!("may not be '{name}'")),
                _ if name.contains('/') => Some("may not contain '/'".to_owned()),
                _ if name.contains('%') => Some("may not contain '%'".to_owned()),
                _ => None,
            };
        }
    };
    if name.len() > length_max {
        return Some(format!("must be no more than {length_max} characters"));
    }
    (!valid).then(|| message.to_owned())
}

fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rule_of_their_kind() {
        let long = "a".repeat(254);
        for (rule, name, valid) in [
            (Rule::Subdomain, "a.b-c.0", true),
            (Rule::Subdomain, "Bad_Name", false),
            (Rule::Subdomain, "a..b", false),
            (Rule::Subdomain, "-a", false),
            (Rule::Subdomain, &long, false),
            (Rule::Label, "a.b", false),
            (Rule::Label, "0a", true),
            (Rule::Label1035, "0a", false),
            (Rule::Label1035, "a0", true),
            (Rule::Segment, "system:node", true),
            (Rule::Segment, "a/b", false),
            (Rule::Segment, "..", false),
        ] {
            assert_eq!(problem(rule, name).is_none(), valid, "{name}");
        }
    }
}
