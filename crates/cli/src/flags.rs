//! kubectl's flags that several commands share.

use crate::cluster::Cluster;
use crate::discovery::{Kind, Selected};
use crate::output::Format;
use crate::terminal::ColourChoice;

/// Selects objects.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Object selection")]
pub(crate) struct SelectFlags {
    /// Namespace; can be repeated, or a list separated by commas. The default is the namespace of the context.
    #[arg(short = 'n', long = "namespace", value_name = "NAMESPACE", value_delimiter = ',')]
    pub(crate) namespaces: Vec<String>,
    /// All namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespaces")]
    pub(crate) all_namespaces: bool,
    /// Label selector: tier=web, 'tier in (web,db)', '!tier'.
    #[arg(
        short = 'l',
        long = "selector",
        value_name = "LABELS",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) labels: String,
    /// Field selector, limited to the fields that the server supports: status.phase=Running.
    #[arg(long = "field-selector", value_name = "FIELDS", default_value = "", hide_default_value = true)]
    pub(crate) fields: String,
}

/// Formats output.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputFlags {
    /// Format: json, yaml, name, wide, jsonpath=TEMPLATE or custom-columns=TITLE:PATH,…
    #[arg(short, long, value_name = "FORMAT", value_parser = str::parse::<Format>)]
    pub(crate) output: Option<Format>,
    /// Print columns without titles.
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
    /// The namespaces to read: `None` stands for all, and for kinds without namespaces.
    pub(crate) fn namespaces_of<'a>(
        &'a self,
        cluster: &'a Cluster,
        selected: &'a Selected,
    ) -> Vec<Option<&'a str>> {
        if !selected.kind.namespaced {
            return vec![None];
        }
        if let Some(namespace) = &selected.namespace {
            return vec![Some(namespace)];
        }
        if self.all_namespaces {
            return vec![None];
        }
        match self.namespaces.as_slice() {
            [] => vec![Some(&cluster.default_namespace)],
            namespaces => {
                let mut found: Vec<Option<&str>> = Vec::new();
                for namespace in namespaces {
                    if !found.contains(&Some(namespace)) {
                        found.push(Some(namespace));
                    }
                }
                found
            }
        }
    }

    /// Whether output shows namespaces, because they differ.
    pub(crate) fn shows_namespaces(&self) -> bool {
        self.all_namespaces || self.namespaces.iter().any(|namespace| *namespace != self.namespaces[0])
    }

    /// The field selector, including the name if one object is selected.
    pub(crate) fn fields_of(&self, selected: &Selected) -> String {
        let name = selected.name.as_ref().map(|name| format!("metadata.name={name}"));
        let given = (!self.fields.is_empty()).then(|| self.fields.clone());
        name.into_iter().chain(given).collect::<Vec<_>>().join(",")
    }

    /// `pods in namespace web`, for messages.
    pub(crate) fn describe(&self, cluster: &Cluster, selected: &Selected) -> String {
        let kind = selected.kind.qualified();
        match self.namespaces_of(cluster, selected).as_slice() {
            [None] if selected.kind.namespaced => format!("{kind} in all namespaces"),
            [Some(namespace)] => format!("{kind} in namespace {namespace}"),
            [_] | [] => kind,
            several => {
                let several = several.iter().copied().flatten().collect::<Vec<_>>().join(", ");
                format!("{kind} in namespaces {several}")
            }
        }
    }
}

impl OutputFlags {
    pub(crate) fn format(&self) -> Format {
        self.output.clone().unwrap_or(Format::Table { wide: false })
    }
}

/// Whether objects of this kind are shown with masked values.
pub(crate) fn masks_kind(output: &OutputFlags, kind: &Kind) -> bool {
    !output.show_secrets && crate::masks::are_secrets(&kind.resource)
}
