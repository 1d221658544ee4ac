//! `/version`: the Kubernetes version that the server implements.

/// The version that clients compare.
pub(crate) const GIT_VERSION: &str = "v1.37.1";

/// The response, indented like a real server's.
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
