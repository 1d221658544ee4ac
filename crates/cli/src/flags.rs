//! kubectl's flags that several commands have.

use crate::cluster::Cluster;
use crate::discovery::{Kind, Selected};
use crate::output::Format;
use crate::terminal::ColourChoice;

/// Which objects.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which objects")]
pub(crate) struct SelectFlags {
    /// Only this namespace; else the one of the context.
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
    /// All namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Only objects with these labels: tier=web, 'tier in (web,db)', '!tier'.
    #[arg(
        short = 'l',
        long = "selector",
        value_name = "LABELS",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) labels: String,
    /// Only objects with these fields, as far as the server can select by them: status.phase=Running.
    #[arg(long = "field-selector", value_name = "FIELDS", default_value = "", hide_default_value = true)]
    pub(crate) fields: String,
}

/// How they are shown.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "How they are shown")]
pub(crate) struct OutputFlags {
    /// json, yaml, name, wide, jsonpath=TEMPLATE or custom-columns=TITLE:PATH,…
    #[arg(short, long, value_name = "FORMAT", value_parser = str::parse::<Format>)]
    pub(crate) output: Option<Format>,
    /// No line of titles above columns.
    #[arg(long)]
    pub(crate) no_headers: bool,
    /// Keep metadata.managedFields in json, yaml and jsonpath.
    #[arg(long)]
    pub(crate) show_managed_fields: bool,
    /// Show the values of Secrets instead of ***.
    #[arg(long)]
    pub(crate) show_secrets: bool,
    /// When to use colours.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) color: ColourChoice,
}

impl SelectFlags {
    /// The namespace that is asked for; none for all, and for kinds that live in none.
    pub(crate) fn namespace_of<'a>(&'a self, cluster: &'a Cluster, kind: &Kind) -> Option<&'a str> {
        if self.all_namespaces || !kind.namespaced {
            return None;
        }
        Some(self.namespace.as_deref().unwrap_or(&cluster.default_namespace))
    }

    /// The field selector, with the name in it if one object is wanted.
    pub(crate) fn fields_of(&self, selected: &Selected) -> String {
        let name = selected.name.as_ref().map(|name| format!("metadata.name={name}"));
        let given = (!self.fields.is_empty()).then(|| self.fields.clone());
        name.into_iter().chain(given).collect::<Vec<_>>().join(",")
    }

    /// `pods in namespace web`, for messages.
    pub(crate) fn describe(&self, cluster: &Cluster, kind: &Kind) -> String {
        match self.namespace_of(cluster, kind) {
            Some(namespace) => format!("{} in namespace {namespace}", kind.qualified()),
            None if kind.namespaced => format!("{} in all namespaces", kind.qualified()),
            None => kind.qualified(),
        }
    }
}

impl OutputFlags {
    pub(crate) fn format(&self) -> Format {
        self.output.clone().unwrap_or(Format::Table { wide: false })
    }
}
