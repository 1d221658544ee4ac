//! A token from a file, such as a pod's service account token.

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderValue;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{CredentialsError, bearer};

/// How long a token is used before the file is read again, as in client-go.
const READ_AGAIN: Duration = Duration::from_secs(60);

pub(super) struct TokenFile {
    path: PathBuf,
    last: Mutex<(HeaderValue, Instant)>,
}

impl TokenFile {
    pub(super) fn open(path: PathBuf) -> Result<Self, CredentialsError> {
        let header = read(&path)?;
        Ok(Self { path, last: Mutex::new((header, Instant::now())) })
    }

    /// The token's header. If the file can no longer be read, the last token is used: some files are removed once read.
    pub(super) fn header(&self) -> Result<HeaderValue, CredentialsError> {
        let mut last = self.last.lock();
        if last.1.elapsed() >= READ_AGAIN {
            match read(&self.path) {
                Ok(header) => last.0 = header,
                Err(CredentialsError::File { .. }) => {}
                Err(error) => return Err(error),
            }
            last.1 = Instant::now();
        }
        Ok(last.0.clone())
    }
}

fn read(path: &PathBuf) -> Result<HeaderValue, CredentialsError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| CredentialsError::File { path: path.clone(), error })?;
    bearer(&text)
}
