//! Who is measured, and how each is asked for the same.

use std::path::Path;
use std::process::Command;

use super::programs::Programs;

/// A program and how it goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Ours,
    OursJson,
    ClientGo,
    ClientGoJson,
    /// Pages of 500, its default.
    KubeRs,
    KubeRsStreaming,
    /// Receives the same bytes and throws them away.
    Floor,
}

impl Subject {
    /// The columns of figures begin with this one; the others are compared with it.
    pub(super) const REFERENCE: Self = Self::Ours;
    pub(super) const ALL: [Self; 7] = [
        Self::Ours,
        Self::OursJson,
        Self::ClientGo,
        Self::ClientGoJson,
        Self::KubeRs,
        Self::KubeRsStreaming,
        Self::Floor,
    ];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Ours => "ours, protobuf",
            Self::OursJson => "ours, JSON",
            Self::ClientGo => "client-go, protobuf",
            Self::ClientGoJson => "client-go, JSON",
            Self::KubeRs => "kube-rs, pages of 500 (JSON)",
            Self::KubeRsStreaming => "kube-rs, streaming list (JSON)",
            Self::Floor => "floor: received and thrown away",
        }
    }

    /// What a pod of the first state takes at most in memory, roughly: it decides what is not asked of whom.
    pub(super) fn bytes_a_pod(self) -> u64 {
        match self {
            Self::Ours | Self::OursJson => 3_000,
            Self::ClientGo | Self::ClientGoJson => 25_000,
            Self::KubeRs | Self::KubeRsStreaming => 68_000,
            Self::Floor => 0,
        }
    }

    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Ours | Self::OursJson)
    }

    /// The program with its subcommand and its way of saying how.
    pub(super) fn command(self, programs: &Programs, subcommand: &str, kubeconfig: &Path) -> Command {
        let mut command = match self {
            Self::Ours | Self::OursJson | Self::Floor => Command::new(&programs.ours),
            Self::ClientGo | Self::ClientGoJson => Command::new(&programs.client_go),
            Self::KubeRs | Self::KubeRsStreaming => Command::new(&programs.kube_rs),
        };
        match self {
            Self::Floor => command.arg("floor").arg(kubeconfig),
            Self::ClientGo | Self::ClientGoJson => command.args([subcommand, "--kubeconfig"]).arg(kubeconfig),
            _ => command.arg(subcommand).arg(kubeconfig),
        };
        match self {
            Self::OursJson | Self::ClientGoJson => command.arg("--json"),
            Self::KubeRsStreaming => command.arg("--watch-list"),
            _ => &mut command,
        };
        command
    }
}
