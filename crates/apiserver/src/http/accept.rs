//! `Accept`: the first clause that can be served wins, as in a kube-apiserver; quality values are ignored.

use kube_wire::Encoding;

/// The negotiated form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Representation {
    pub(crate) encoding: Encoding,
    pub(crate) projection: Projection,
}

/// How much of an object a response contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Projection {
    Whole,
    /// `PartialObjectMetadata` and its list.
    Metadata,
}

/// The forms in which the requested resource is available.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// Whole objects have a protobuf form.
    pub(crate) protobuf: bool,
    /// The response consists of objects, so clients may ask for their metadata alone.
    pub(crate) projections: bool,
}

/// None of the accepted forms can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAcceptable {
    /// The media type is unknown.
    MediaType,
    /// The media type is known but not available here. The error itself can be sent in it.
    Form(Encoding),
}

impl Representation {
    pub(crate) const JSON: Self = Self { encoding: Encoding::Json, projection: Projection::Whole };

    /// A small number that identifies the representation.
    pub(crate) fn number(self) -> u8 {
        u8::from(self.encoding == Encoding::Protobuf) + 2 * u8::from(self.projection == Projection::Metadata)
    }

    /// Negotiates by the header's clauses. Without a header, JSON.
    pub(crate) fn negotiate(accept: Option<&str>, offer: Offer) -> Result<Self, NotAcceptable> {
        let accept = accept.map(str::trim).unwrap_or_default();
        if accept.is_empty() {
            return Ok(Self::JSON);
        }
        let mut refused = NotAcceptable::MediaType;
        for clause in accept.split(',') {
            let Some((encoding, parameters)) = media_type(clause) else { continue };
            let projection = match projection(&parameters) {
                Some(Projection::Metadata) if !offer.projections => None,
                other => other,
            };
            match projection {
                Some(Projection::Whole) if encoding == Encoding::Protobuf && !offer.protobuf => {}
                Some(projection) => return Ok(Self { encoding, projection }),
                None => {}
            }
            if refused == NotAcceptable::MediaType {
                refused = NotAcceptable::Form(encoding);
            }
        }
        Err(refused)
    }
}

/// The clause's encoding and its parameters.
fn media_type(clause: &str) -> Option<(Encoding, Vec<(&str, &str)>)> {
    let mut parts = clause.split(';').map(str::trim);
    let encoding = match parts.next()? {
        "application/json" | "*/*" | "application/*" => Encoding::Json,
        "application/vnd.kubernetes.protobuf" => Encoding::Protobuf,
        _ => return None,
    };
    let parameters = parts.filter_map(|part| part.split_once('=')).map(|(k, v)| (k.trim(), v.trim()));
    Some((encoding, parameters.collect()))
}

/// The requested projection; `None` if it is unsupported (`Table`, other versions).
fn projection(parameters: &[(&str, &str)]) -> Option<Projection> {
    let find = |name| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    match find("as") {
        None => Some(Projection::Whole),
        Some("PartialObjectMetadata" | "PartialObjectMetadataList")
            if find("g") == Some("meta.k8s.io") && find("v") == Some("v1") =>
        {
            Some(Projection::Metadata)
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILTIN: Offer = Offer { protobuf: true, projections: true };
    const CUSTOM: Offer = Offer { protobuf: false, projections: true };

    #[test]
    fn the_first_clause_that_can_be_served_wins() {
        let json = Ok((Encoding::Json, Projection::Whole));
        let protobuf = Ok((Encoding::Protobuf, Projection::Whole));
        let metadata = Ok((Encoding::Protobuf, Projection::Metadata));
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        let pb = "application/vnd.kubernetes.protobuf";
        let partial = "application/vnd.kubernetes.protobuf;v=v1;g=meta.k8s.io;as=PartialObjectMetadataList";
        let cases = [
            (None, BUILTIN, json),
            (Some(""), BUILTIN, json),
            (Some("*/*"), BUILTIN, json),
            (Some(pb), BUILTIN, protobuf),
            (Some("application/vnd.kubernetes.protobuf;stream=watch"), BUILTIN, protobuf),
            (Some("application/cbor, application/vnd.kubernetes.protobuf"), BUILTIN, protobuf),
            (Some("application/vnd.kubernetes.protobuf,application/json"), CUSTOM, json),
            (Some(partial), CUSTOM, metadata),
            (Some(table), BUILTIN, json),
            (Some("application/cbor"), BUILTIN, Err(NotAcceptable::MediaType)),
            (Some(pb), CUSTOM, Err(NotAcceptable::Form(Encoding::Protobuf))),
            (
                Some("application/json;as=Table;v=v1;g=meta.k8s.io"),
                BUILTIN,
                Err(NotAcceptable::Form(Encoding::Json)),
            ),
        ];
        for (accept, offer, expected) in cases {
            let found = Representation::negotiate(accept, offer).map(|r| (r.encoding, r.projection));
            assert_eq!(found, expected, "{accept:?}");
        }
    }
}
