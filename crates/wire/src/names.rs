//! Validation of Kubernetes names: DNS labels, subdomains, and the keys and values of labels.
//!
//! Each function returns what is wrong with a name, in the wording of a kube-apiserver, or `None` if the name is
//! valid.

const SUBDOMAIN_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                         and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                         validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                          alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or \
                          'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                              with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used \
                              for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                           and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
                           '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Checks a DNS label (RFC 1123).
pub fn dns_label(text: &str) -> Option<String> {
    problem(text, LABEL_BYTES_MAX, is_label(text), LABEL)
}

/// Checks a DNS label that starts with a letter (RFC 1035).
pub fn dns_1035_label(text: &str) -> Option<String> {
    let valid = is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase());
    problem(text, LABEL_BYTES_MAX, valid, LABEL_1035)
}

/// Checks a DNS subdomain (RFC 1123).
pub fn dns_subdomain(text: &str) -> Option<String> {
    problem(text, SUBDOMAIN_BYTES_MAX, text.split('.').all(is_label), SUBDOMAIN)
}

/// Checks the key of a label: `name` or `domain/name`.
pub fn label_key(key: &str) -> Option<String> {
    let name = match key.rsplit_once('/') {
        Some(("", _)) => return Some("prefix part must be non-empty".to_owned()),
        Some((domain, name)) => match dns_subdomain(domain) {
            Some(detail) => return Some(format!("prefix part {detail}")),
            None => name,
        },
        None => key,
    };
    if name.is_empty() {
        return Some("name part must be non-empty".to_owned());
    }
    if name.len() > LABEL_BYTES_MAX {
        return Some(format!("name part must be no more than {LABEL_BYTES_MAX} bytes"));
    }
    (!is_word(name)).then(|| QUALIFIED_NAME.to_owned())
}

/// Checks the value of a label.
pub fn label_value(value: &str) -> Option<String> {
    problem(value, LABEL_BYTES_MAX, value.is_empty() || is_word(value), LABEL_VALUE)
}

fn problem(text: &str, bytes_max: usize, valid: bool, message: &str) -> Option<String> {
    if text.len() > bytes_max {
        return Some(format!("must be no more than {bytes_max} bytes"));
    }
    (!valid).then(|| message.to_owned())
}

/// Lower-case letters, digits and `-`, without a `-` at either end.
fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Letters, digits and `-_.`, with a letter or a digit at both ends.
fn is_word(text: &str) -> bool {
    let is_end = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(is_end) && text.ends_with(is_end) && text.chars().all(|c| is_end(c) || "-_.".contains(c))
}
