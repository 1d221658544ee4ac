//! Reads the selected objects: one by name, or all of a kind through an informer.

use std::time::Duration;

use kube_informer::StoredObject;
use kube_informer::building_blocks::ReflectorError;
use kube_informer::{Scope, SyncError};
use kube_wire::{Encoding, Limits, ObjectReader};
use serde::Deserialize;
use tokio::time::MissedTickBehavior;

use super::Getting;
use crate::discovery::{Kind, Selected};
use crate::failure::Failure;
use crate::field_filter::FieldFilter;
use crate::flags::masks_kind;
use crate::mirror::{self, Mirror, MirrorErrors, MirrorOptions};
use crate::output::record::Record;
use crate::progress::Progress;
use crate::reads::Reads;
use crate::request;
use crate::terminal::{Screen, escape};

/// How often the progress of a list is drawn.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Objects of one kind, as bytes.
pub(super) struct Listing {
    pub(super) kind: Kind,
    pub(super) objects: Vec<StoredObject>,
    /// Values are masked.
    masked: bool,
}

/// apiVersion and kind of a response.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResponseType {
    api_version: String,
    kind: String,
}

impl Listing {
    /// An object of the listing, ready to be printed.
    pub(super) fn record<'o>(&'o self, object: &'o StoredObject, getting: &'o Getting<'_>) -> Record<'o> {
        Record::new(object, self.masked, &getting.decodes)
    }
}

impl Getting<'_> {
    /// The selected objects of a kind: named ones in the given order, others by namespace and name.
    pub(super) async fn listing(
        &self,
        selected: &Selected,
        reads: &Reads,
        screen: &mut Screen,
    ) -> Result<Listing, Failure> {
        let kind = &selected.kind;
        let is_filtered = !self.fields.is_empty() || !self.arguments.select.fields.is_empty();
        let objects = match &selected.name {
            Some(name) if !is_filtered => self.named(selected, name).await?,
            _ => self.filtered(selected, reads, screen).await?,
        };
        Ok(Listing { kind: kind.clone(), objects, masked: masks_kind(&self.arguments.output, kind) })
    }

    /// The objects with this name, in all selected namespaces that have one.
    async fn named(&self, selected: &Selected, name: &str) -> Result<Vec<StoredObject>, Failure> {
        self.check_namespace(selected)?;
        let (mut objects, mut missing) = (Vec::new(), None);
        for namespace in self.arguments.select.namespaces_of(self.cluster, selected) {
            match self.object(selected, namespace, name).await {
                Ok(object) => objects.push(object),
                Err(failure @ Failure::NotFound(_)) => missing = missing.or(Some(failure)),
                Err(failure) => return Err(failure),
            }
        }
        match missing {
            Some(failure) if objects.is_empty() => Err(failure),
            _ => Ok(objects),
        }
    }

    async fn object(
        &self,
        selected: &Selected,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<StoredObject, Failure> {
        let path = selected.kind.path(namespace, Some(name))?;
        let cannot = format!("cannot read {}", self.arguments.select.describe(self.cluster, selected));
        let bytes = request::get_bytes(self.cluster, &path, "application/json").await;
        let bytes = bytes.map_err(|error| error.failure(&cannot))?;
        let expected = selected.kind.resource.type_meta();
        let found = serde_json::from_slice::<ResponseType>(&bytes).unwrap_or_default();
        if found.kind != expected.kind() || found.api_version != expected.api_version() {
            let found = if found.kind.is_empty() { "an object without a kind" } else { &found.kind };
            let found = escape::one_line(found);
            return Err(Failure::Other(format!("{cannot}: expected {expected}, received {found}")));
        }
        let complete = Reads::Everything { managed_fields: self.arguments.output.show_managed_fields };
        let mut reader = ObjectReader::new(complete.projection()?, Limits::default());
        let object =
            reader.read(&bytes, Encoding::Json, None).map_err(|error| Failure::other(&cannot, &error))?;
        StoredObject::new(Scope::default(), object).map_err(|error| Failure::other(&cannot, &error))
    }

    /// All objects of a kind that pass the filters.
    async fn filtered(
        &self,
        selected: &Selected,
        reads: &Reads,
        screen: &mut Screen,
    ) -> Result<Vec<StoredObject>, Failure> {
        let filter = FieldFilter::compile(&self.fields, &selected.kind.resource.type_meta())?;
        let mirror = self.mirror(selected.clone(), reads, screen).await?;
        let mut objects = Vec::new();
        for object in mirror.informer.lister().view().snapshot().iter() {
            if filter.match_all(object)? {
                objects.push(object.clone());
            }
        }
        objects.sort_unstable_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
        mirror.informer.shutdown().await;
        Ok(objects)
    }

    /// A name belongs to one namespace.
    pub(super) fn check_namespace(&self, selected: &Selected) -> Result<(), Failure> {
        match (self.arguments.select.all_namespaces && selected.kind.namespaced, &selected.name) {
            (true, Some(name)) => Err(Failure::Usage(format!(
                "cannot read {name} in all namespaces: a name belongs to one namespace; use -n NAMESPACE"
            ))),
            _ => Ok(()),
        }
    }

    /// An informer that has synced. It retries if the server asks for it, up to a limit; any other error ends the command.
    pub(super) async fn mirror(
        &self,
        selected: Selected,
        reads: &Reads,
        screen: &mut Screen,
    ) -> Result<Mirror, Failure> {
        let options = MirrorOptions {
            reads: reads.clone(),
            show_secrets: self.arguments.output.show_secrets,
            list_only: true,
            ..MirrorOptions::default()
        };
        let (sender, errors) = mirror::errors();
        let mirror = Mirror::start(self.cluster, selected, &self.arguments.select, &options, 0, sender)?;
        let synced = self.synced(&mirror, errors, screen);
        match self.cluster.request_timeout {
            None => synced.await?,
            Some(limit) => tokio::time::timeout(limit, synced).await.unwrap_or_else(|_| {
                Err(Failure::NoCluster(format!("timed out after {limit:?} reading {}", mirror.objects)))
            })?,
        }
        Ok(mirror)
    }

    async fn synced(
        &self,
        mirror: &Mirror,
        mut errors: MirrorErrors,
        screen: &mut Screen,
    ) -> Result<(), Failure> {
        let mut retries = 0;
        let synced = mirror.informer.synced();
        tokio::pin!(synced);
        let mut progress = Progress::uncounted(screen);
        let mut tick = tokio::time::interval(PROGRESS_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        tick.reset();
        let ended = loop {
            tokio::select! {
                biased;
                Some((_, report)) = errors.recv() => {
                    // The watch that follows the list is not needed.
                    if !matches!(report.error.reflector_error(), ReflectorError::List(_) | ReflectorError::Object(_)) {
                        continue;
                    }
                    let status = report.error.status();
                    let passes = status.is_some_and(|status| request::can_retry(status) || status.is_expired());
                    if passes && retries < request::RETRIES_MAX {
                        retries += 1;
                        continue;
                    }
                    break Err(mirror.refusal(&report).unwrap_or_else(|| {
                        Failure::Other(format!("{}: {}", mirror.cannot_read(), escape::one_line(&report.error.to_string())))
                    }));
                }
                // The same refusal can arrive in both ways.
                synced = &mut synced => break synced.map_err(|error| match &error {
                    SyncError::Refused { status, .. } => Failure::from_status(&mirror.cannot_read(), status),
                    _ => Failure::other(&mirror.cannot_read(), &error),
                }),
                _ = tick.tick(), if !progress.is_over() => {
                    progress.show(std::slice::from_ref(mirror), screen);
                    screen.flush().await?;
                }
            }
        };
        screen.clear_status();
        ended
    }
}
