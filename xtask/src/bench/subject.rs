//! The programs that are measured, and the command lines that make them do the same work.

use std::path::Path;
use std::process::Command;

use super::programs::Programs;

/// A program and its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Ours,
    OursJson,
    /// Its handler decodes every object that it receives, like a controller that reads everything.
    OursDecoding,
    OursMetadata,
    ClientGo,
    /// With a transform that drops managedFields, as ours does by default.
    ClientGoStripped,
    ClientGoJson,
    ClientGoMetadata,
    /// Pages of 500, its default.
    KubeRs,
    KubeRsStreaming,
    /// Streaming, with a `modify` that drops managedFields.
    KubeRsStripped,
    KubeRsMetadata,
    /// Receives the same bytes and discards them.
    Floor,
    /// `kube-informer get`
    Get,
    /// `kubectl get`
    Kubectl,
}

impl Subject {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Ours => "ours, protobuf",
            Self::OursJson => "ours, JSON",
            Self::OursDecoding => "ours, decoded in the handler",
            Self::OursMetadata => "ours, metadata only",
            Self::ClientGo => "client-go, protobuf",
            Self::ClientGoStripped => "client-go, managedFields stripped",
            Self::ClientGoJson => "client-go, JSON",
            Self::ClientGoMetadata => "client-go, metadata only, stripped",
            Self::KubeRs => "kube-rs, pages of 500 (JSON)",
            Self::KubeRsStreaming => "kube-rs, streaming list (JSON)",
            Self::KubeRsStripped => "kube-rs, managedFields stripped",
            Self::KubeRsMetadata => "kube-rs, metadata only, stripped",
            Self::Floor => "floor: bytes received and discarded",
            Self::Get => "kube-informer get",
            Self::Kubectl => "kubectl get",
        }
    }

    /// Approximate peak memory per object of the initial list. It decides which subjects are skipped.
    pub(super) fn object_bytes_max(self) -> u64 {
        match self.program() {
            Program::Ours if self == Self::Floor => 0,
            Program::Ours => 3_000,
            Program::ClientGo if self == Self::Kubectl => 180_000,
            Program::ClientGo => 25_000,
            Program::KubeRs => 68_000,
        }
    }

    pub(super) fn is_ours(self) -> bool {
        self.program() == Program::Ours && self != Self::Floor
    }

    /// Whether the program does not print figures of its own.
    pub(super) fn is_measured_outside(self) -> bool {
        matches!(self, Self::Get | Self::Kubectl)
    }

    fn program(self) -> Program {
        match self {
            Self::Ours
            | Self::OursJson
            | Self::OursDecoding
            | Self::OursMetadata
            | Self::Floor
            | Self::Get => Program::Ours,
            Self::ClientGo
            | Self::ClientGoStripped
            | Self::ClientGoJson
            | Self::ClientGoMetadata
            | Self::Kubectl => Program::ClientGo,
            Self::KubeRs | Self::KubeRsStreaming | Self::KubeRsStripped | Self::KubeRsMetadata => {
                Program::KubeRs
            }
        }
    }

    /// Its options.
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Ours | Self::ClientGo | Self::KubeRs | Self::Floor | Self::Get | Self::Kubectl => &[],
            Self::OursJson | Self::ClientGoJson => &["--json"],
            Self::OursDecoding => &["--decode"],
            Self::OursMetadata => &["--metadata"],
            Self::ClientGoMetadata => &["--metadata", "--strip"],
            Self::ClientGoStripped => &["--strip"],
            Self::KubeRsStreaming => &["--watch-list"],
            Self::KubeRsStripped => &["--watch-list", "--strip"],
            Self::KubeRsMetadata => &["--watch-list", "--metadata", "--strip"],
        }
    }

    /// `kube-informer get` or `kubectl get` with these arguments; `None` for other subjects and without kubectl.
    pub(super) fn get(self, programs: &Programs, arguments: &[&str], kubeconfig: &Path) -> Option<Command> {
        let program = match self {
            Self::Get => &programs.program,
            Self::Kubectl => programs.kubectl.as_ref()?,
            _ => return None,
        };
        let mut command = Command::new(program);
        command.arg("get").args(arguments).arg("--kubeconfig").arg(kubeconfig);
        Some(command)
    }

    /// The program with its subcommand and options.
    pub(super) fn command(self, programs: &Programs, subcommand: &str, kubeconfig: &Path) -> Command {
        let mut command = match self.program() {
            Program::Ours => Command::new(&programs.ours),
            Program::ClientGo => Command::new(&programs.client_go),
            Program::KubeRs => Command::new(&programs.kube_rs),
        };
        match self.program() {
            Program::ClientGo => command.args([subcommand, "--kubeconfig"]).arg(kubeconfig),
            _ if self == Self::Floor => command.arg("floor").arg(kubeconfig),
            _ => command.arg(subcommand).arg(kubeconfig),
        };
        command.args(self.options());
        command
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Program {
    Ours,
    ClientGo,
    KubeRs,
}
