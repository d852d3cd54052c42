//! What the client accepts: JSON or YAML; whole objects, their metadata, or a table.

use http::{HeaderMap, header};

use crate::failure::{Failure, Result};

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Whole,
    /// `PartialObjectMetadata` or its list.
    Metadata,
    Table {
        /// The version of meta.k8s.io that was asked for.
        version: &'static str,
    },
}

/// The first form in the Accept header that the server can give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accept {
    pub(crate) shape: Shape,
    pub(crate) yaml: bool,
}

impl Accept {
    /// For one object or a watch (`list` false), or for a list.
    pub(crate) fn parse(headers: &HeaderMap, list: bool, core: bool) -> Result<Self> {
        let clauses = clauses(headers);
        if clauses.is_empty() {
            return Ok(Self { shape: Shape::Whole, yaml: false });
        }
        // A real server takes this for none of the forms of a core kind.
        let mut named = clauses.into_iter().filter(|clause| !(core && clause.starts_with("application/*")));
        match named.find_map(form) {
            Some((accept, of_list)) if of_list.is_none_or(|of_list| of_list == list) => Ok(accept),
            _ => Err(Failure::not_acceptable()),
        }
    }

    /// Whether errors go out as YAML: what cannot be given for an object may be for them, so the rest counts as JSON.
    pub(crate) fn wants_yaml_errors(headers: &HeaderMap) -> bool {
        let mut forms = clauses(headers).into_iter().filter_map(form);
        forms.find(|(accept, _)| accept.shape == Shape::Whole).is_some_and(|(accept, _)| accept.yaml)
    }

    /// Whether the first form that can be given of what is served is the aggregated one.
    pub(crate) fn wants_aggregated(headers: &HeaderMap) -> Result<bool> {
        let clauses = clauses(headers);
        let aggregated = |clause: &str| match parameters(clause) {
            ("application/json" | "application/*" | "*/*", "", ..) => Some(false),
            (
                "application/json" | "application/*" | "*/*",
                "APIGroupDiscoveryList",
                "apidiscovery.k8s.io",
                "v2",
            ) => Some(true),
            _ => None,
        };
        match clauses.iter().find_map(|clause| aggregated(clause)) {
            None if !clauses.is_empty() => Err(Failure::not_acceptable()),
            wanted => Ok(wanted == Some(true)),
        }
    }
}

/// The clauses of the Accept header, those that are wanted most first.
fn clauses(headers: &HeaderMap) -> Vec<&str> {
    let quality = |clause: &str| {
        let given = clause.split(';').find_map(|part| part.trim().strip_prefix("q="));
        given.map_or(1.0, |given| given.parse::<f32>().unwrap_or(0.0))
    };
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut clauses: Vec<&str> =
        values.flat_map(|text| text.split(',')).map(str::trim).filter(|clause| !clause.is_empty()).collect();
    clauses.sort_by(|a, b| {
        quality(b).total_cmp(&quality(a)).then_with(|| a.contains("/*").cmp(&b.contains("/*")))
    });
    clauses
}

/// The media type of a clause, and what it says as `as`, `g` and `v`.
fn parameters(clause: &str) -> (&str, &str, &str, &str) {
    let mut parts = clause.split(';').map(str::trim);
    let mut found = (parts.next().unwrap_or_default(), "", "", "");
    for part in parts {
        match part.split_once('=') {
            Some(("as", value)) => found.1 = value,
            Some(("g", value)) => found.2 = value,
            Some(("v", value)) => found.3 = value,
            _ => {}
        }
    }
    found
}

/// What a clause asks for, and of metadata whether it is that of a list; `None` when it is not served.
fn form(clause: &str) -> Option<(Accept, Option<bool>)> {
    let (media, form, group, version) = parameters(clause);
    let yaml = match media {
        "*/*" | "application/*" | "application/json" => false,
        "application/yaml" => true,
        _ => return None,
    };
    let version = match (group, version) {
        _ if form.is_empty() => return Some((Accept { shape: Shape::Whole, yaml }, None)),
        ("meta.k8s.io", "v1") => "v1",
        ("meta.k8s.io", "v1beta1") => "v1beta1",
        _ => return None,
    };
    let (shape, of_list) = match form {
        "Table" => (Shape::Table { version }, None),
        "PartialObjectMetadata" => (Shape::Metadata, Some(false)),
        "PartialObjectMetadataList" => (Shape::Metadata, Some(true)),
        _ => return None,
    };
    Some((Accept { shape, yaml }, of_list))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(text: &str, list: bool) -> Option<(Shape, bool)> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, text.parse().unwrap());
        Accept::parse(&headers, list, true).ok().map(|accept| (accept.shape, accept.yaml))
    }

    #[test]
    fn the_first_form_that_can_be_given_wins() {
        for (text, list, expected) in [
            ("application/json", true, Some((Shape::Whole, false))),
            ("application/vnd.kubernetes.protobuf, application/json", true, Some((Shape::Whole, false))),
            ("application/vnd.kubernetes.protobuf", true, None),
            ("*/*", false, Some((Shape::Whole, false))),
            ("application/yaml", false, Some((Shape::Whole, true))),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                true,
                Some((Shape::Table { version: "v1" }, false)),
            ),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                true,
                Some((Shape::Metadata, false)),
            ),
            ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", false, None),
            ("application/json;as=Other;v=v1;g=meta.k8s.io", true, None),
        ] {
            assert_eq!(accept(text, list), expected, "{text}");
        }
        assert_eq!(Accept::parse(&HeaderMap::new(), true, true).unwrap().shape, Shape::Whole);
    }
}
