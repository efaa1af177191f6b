//! The form in which a client wants its answer.

use holdfast_api::native::table::Include;
use http::{HeaderMap, header};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// JSON as it is stored.
    Plain,
    /// Made of the plain form: the columns of a CRD could not say `N/A`.
    Table(Include),
    /// Metadata only. kube-apiserver has this form for the CRD too; this is what to ask it for.
    Metadata(String),
}

/// None: the client takes nothing that we have.
pub fn negotiate(headers: &HeaderMap, query: &str) -> Option<Form> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let accept = accept.filter(|accept| !accept.is_empty()).unwrap_or("*/*");
    accept.split(',').find_map(|choice| form(choice.trim(), query))
}

/// What `Accept` to send for it.
impl Form {
    pub fn accept(&self) -> &str {
        match self {
            Self::Plain | Self::Table(_) => "application/json",
            Self::Metadata(accept) => accept,
        }
    }
}

fn form(choice: &str, query: &str) -> Option<Form> {
    let mut parameters = choice.split(';').map(str::trim);
    if !matches!(parameters.next()?, "application/json" | "application/*" | "*/*") {
        return None;
    }
    let parameter = |name: &str| {
        let mut all = choice.split(';').filter_map(|p| p.trim().split_once('='));
        all.find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    // Streams of CBOR and the like have forms that we do not.
    match (parameter("as"), parameter("g"), parameter("v")) {
        (None, ..) => Some(Form::Plain),
        (Some("Table"), Some("meta.k8s.io"), Some("v1")) => Some(Form::Table(include(query))),
        (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), Some("meta.k8s.io"), _) => {
            Some(Form::Metadata(choice.to_owned()))
        }
        _ => None,
    }
}

fn include(query: &str) -> Include {
    match super::document::parameter(query, "includeObject") {
        Some("None") => Include::None,
        Some("Object") => Include::Object,
        _ => Include::Metadata,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(accept: &str, query: &str) -> Option<Form> {
        let mut headers = HeaderMap::new();
        if !accept.is_empty() {
            headers.insert(header::ACCEPT, accept.parse().unwrap());
        }
        negotiate(&headers, query)
    }

    #[test]
    fn the_first_form_that_we_have_is_taken() {
        assert_eq!(asked("", ""), Some(Form::Plain));
        let typed = "application/vnd.kubernetes.protobuf, */*";
        assert_eq!(asked(typed, ""), Some(Form::Plain));
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(asked(kubectl, ""), Some(Form::Table(Include::Metadata)));
        assert_eq!(asked(kubectl, "includeObject=Object"), Some(Form::Table(Include::Object)));
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
            application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
        assert_eq!(
            asked(metadata, ""),
            Some(Form::Metadata(
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1".to_owned()
            ))
        );
        assert_eq!(asked("application/vnd.kubernetes.protobuf", ""), None);
        assert_eq!(asked("application/json;as=Table;v=v1beta1;g=meta.k8s.io", ""), None);
    }
}
