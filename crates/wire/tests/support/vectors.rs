//! Test vectors: objects that Go wrote both as JSON and as protobuf. They are not in the repository. The Go program in
//! `xtask/schema` generates them (all kinds, with no, all or some fields set) and adds those of the module
//! `k8s.io/api` of each supported Kubernetes release. They are cached in the target directory until that program
//! changes. Tests that need them require the feature `go-vectors` (`cargo xtask vectors --test`) and fail without Go.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::LazyLock,
};

use serde_json::Value;

/// Fields that a later release added and that JSON shows even if unset: kind, parent, name, and the shown value. The
/// table has one rule for all releases, that of the latest.
const SHOWN_LATER: [(&str, &str, &str, &str); 4] = [
    ("certificates.k8s.io/v1beta1 PodCertificateRequest", "/spec", "stubPKCS10Request", "null"),
    ("resource.k8s.io/v1alpha3 DeviceTaintRule", "", "status", "{}"),
    ("storage.k8s.io/v1 CSINode", "", "status", "{}"),
    ("storage.k8s.io/v1beta1 CSINode", "", "status", "{}"),
];

/// One object in both encodings.
#[derive(Debug)]
pub(crate) struct Vector {
    /// Its source and name, e.g. `1.37/apps.v1.Deployment` or `made/apps.v1.Deployment.mixed-1`.
    pub(crate) name: String,
    /// Whether it comes from an earlier release than the one that describes most fields of the schema table.
    pub(crate) earlier: bool,
    /// The object's apiVersion, which the envelope of a `WatchEvent` does not contain.
    pub(crate) api_version: String,
    /// The object's kind.
    pub(crate) kind: String,
    /// Go's JSON; for an earlier release, with the fields of [`SHOWN_LATER`].
    pub(crate) json: Vec<u8>,
    /// Go's protobuf, in its envelope.
    pub(crate) pb: Vec<u8>,
}

/// All vectors, sorted by name.
///
/// # Panics
///
/// If Go cannot generate them: a test that cannot run must not pass.
pub(crate) fn vectors() -> Vec<Vector> {
    // Once per process; concurrent processes use different directories, by process id.
    static DIRECTORY: LazyLock<Result<PathBuf, String>> = LazyLock::new(directory);

    let vectors = DIRECTORY.clone().and_then(|dir| {
        let mut vectors = Vec::new();
        for origin in origins().chain(["made"]) {
            read(&dir, origin, &mut vectors).map_err(|error| format!("{}: {error}", dir.display()))?;
        }
        Ok(vectors)
    });
    vectors.unwrap_or_else(|why| panic!("there are no test vectors: {why}"))
}

/// The supported minor versions of Kubernetes, oldest first.
pub(crate) fn origins() -> impl DoubleEndedIterator<Item = &'static str> {
    let releases = include_str!("../../../../xtask/schema/releases.txt").split_whitespace();
    releases.map(|release| release.trim_start_matches('v').rsplit_once('.').expect("a release has a patch").0)
}

/// The object's message, out of its envelope: `raw`, the field with number 2.
pub(crate) fn object(vector: &Vector) -> &[u8] {
    let envelope = vector.pb.strip_prefix(b"k8s\0").unwrap_or_else(|| panic!("{}: no envelope", vector.name));
    let mut reader = kube_wire::internals::proto::Reader::new(envelope);
    while let Some(tag) = reader.tag().expect("Go writes good protobuf") {
        let bytes = reader.expect_bytes(tag).expect("everything in an envelope is bytes");
        if tag.number == 2 {
            return bytes;
        }
    }
    panic!("{}: the envelope holds no object", vector.name)
}

/// The directory with the vectors, created if absent.
fn directory() -> Result<PathBuf, String> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/schema");
    let version = fingerprint(&program).map_err(|error| format!("{}: {error}", program.display()))?;
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = parent.join(format!("vectors-{version:016x}"));
    if dir.exists() {
        return Ok(dir);
    }
    // Created under a temporary name and renamed, because other tests may run concurrently; the first one wins.
    let aside = parent.join(format!("vectors-{version:016x}-{}", process::id()));
    run_go(&program, &aside)?;
    if let Err(error) = fs::rename(&aside, &dir) {
        fs::remove_dir_all(&aside).map_err(|error| format!("{}: {error}", aside.display()))?;
        if !dir.exists() {
            return Err(format!("{}: {error}", dir.display()));
        }
    }
    Ok(dir)
}

fn run_go(program: &Path, dir: &Path) -> Result<(), String> {
    let output = Command::new("go").args(["run", ".", "--vectors"]).arg(dir).current_dir(program).output();
    let output = output.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "they are made by Go, which is not installed".to_owned(),
        _ => format!("`go run` could not be started: {error}"),
    })?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("`go run` in xtask/schema failed: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// Identifies the version of the Go program.
fn fingerprint(program: &Path) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    for path in sorted(program)? {
        path.file_name().hash(&mut hasher);
        fs::read(path)?.hash(&mut hasher);
    }
    Ok(hasher.finish())
}

fn read(dir: &Path, origin: &str, vectors: &mut Vec<Vector>) -> io::Result<()> {
    for path in sorted(&dir.join(origin))? {
        let (Some(stem), true) = (path.file_stem(), path.extension() == Some("pb".as_ref())) else {
            continue;
        };
        let stem = stem.to_string_lossy();
        let (api_version, kind) = kind_in(&stem);
        let earlier = origins().rev().skip(1).any(|earlier| earlier == origin);
        let mut json = fs::read(path.with_extension("json"))?;
        if earlier {
            show_later(&format!("{api_version} {kind}"), &mut json);
        }
        vectors.push(Vector {
            name: format!("{origin}/{stem}"),
            earlier,
            api_version,
            kind,
            json,
            pb: fs::read(&path)?,
        });
    }
    Ok(())
}

/// Adds the fields of [`SHOWN_LATER`] for a kind, if absent.
fn show_later(kind: &str, json: &mut Vec<u8>) {
    for (_, parent, name, nothing) in SHOWN_LATER.iter().filter(|(shown, ..)| *shown == kind) {
        let mut value: Value = serde_json::from_slice(json).expect("Go writes good JSON");
        let parent = value.pointer_mut(parent).and_then(Value::as_object_mut).expect("every field is set");
        if !parent.contains_key(*name) {
            parent.insert((*name).to_owned(), serde_json::from_str(nothing).expect("a constant"));
            *json = value.to_string().into_bytes();
        }
    }
}

/// `apps.v1.Deployment` or `apps.v1.Deployment.zero` gives `apps/v1` and `Deployment`. Only kinds start with a
/// capital.
fn kind_in(stem: &str) -> (String, String) {
    let parts: Vec<&str> = stem.split('.').collect();
    let at =
        parts.iter().position(|part| part.starts_with(char::is_uppercase)).expect("a file name has a kind");
    let (group, version) = (parts[..at - 1].join("."), parts[at - 1]);
    let api_version = if group == "core" { version.to_owned() } else { format!("{group}/{version}") };
    (api_version, parts[at].to_owned())
}

fn sorted(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = dir.read_dir()?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
