//! `/version`: the Kubernetes version whose behaviour is served.

/// As clients compare it.
pub(crate) const GIT_VERSION: &str = "v1.37.1";

/// The answer, in the indented form of a real server.
pub(crate) const ANSWER: &str = r#"{
  "major": "1",
  "minor": "37",
  "emulationMajor": "1",
  "emulationMinor": "37",
  "minCompatibilityMajor": "1",
  "minCompatibilityMinor": "36",
  "gitVersion": "v1.37.1",
  "gitCommit": "",
  "gitTreeState": "embedded",
  "buildDate": "1970-01-01T00:00:00Z",
  "goVersion": "none",
  "compiler": "rustc",
  "platform": "embedded"
}"#;
