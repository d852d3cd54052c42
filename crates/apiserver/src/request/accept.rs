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
    pub(crate) fn parse(headers: &HeaderMap, list: bool) -> Result<Self> {
        let clauses = clauses(headers);
        if clauses.is_empty() {
            return Ok(Self { shape: Shape::Whole, yaml: false });
        }
        let (accept, is_list) =
            clauses.iter().find_map(|clause| clause_form(clause)).ok_or_else(Failure::not_acceptable)?;
        match (is_list, list) {
            (Some(of_list), list) if of_list != list => Err(Failure::not_acceptable()),
            _ => Ok(accept),
        }
    }

    /// For a watch, whose events are one JSON document a line.
    pub(crate) fn parse_for_watch(headers: &HeaderMap) -> Result<Self> {
        let accept = Self::parse(headers, false)?;
        if accept.yaml { Err(Failure::not_acceptable()) } else { Ok(accept) }
    }

    /// Whether errors go out as YAML: what cannot be given for an object may be for them, so the rest counts as JSON.
    pub(crate) fn wants_yaml_errors(headers: &HeaderMap) -> bool {
        let plain =
            |clause: &&str| matches!(clause_form(clause), Some((accept, _)) if accept.shape == Shape::Whole);
        clauses(headers)
            .iter()
            .find(|clause| plain(clause))
            .and_then(|clause| clause_form(clause))
            .is_some_and(|(accept, _)| accept.yaml)
    }

    /// Refuses what no form of a core kind's answer can be, before anything else is looked at.
    pub(crate) fn check_media(headers: &HeaderMap) -> Result<()> {
        const SERVED: [&str; 4] =
            ["*/*", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
        let clauses = clauses(headers);
        let media = |clause: &str| clause.split(';').next().unwrap_or_default().trim().to_owned();
        if clauses.is_empty() || clauses.iter().any(|clause| SERVED.contains(&media(clause).as_str())) {
            return Ok(());
        }
        Err(Failure::not_acceptable())
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

/// What a clause asks for, and of metadata whether it is that of a list; `None` when it is not served.
fn clause_form(clause: &str) -> Option<(Accept, Option<bool>)> {
    let mut parts = clause.split(';').map(str::trim);
    let yaml = match parts.next()? {
        "*/*" | "application/*" | "application/json" => false,
        "application/yaml" => true,
        _ => return None,
    };
    let (mut form, mut group, mut version) = ("", "", "");
    for part in parts {
        match part.split_once('=') {
            Some(("as", value)) => form = value,
            Some(("g", value)) => group = value,
            Some(("v", value)) => version = value,
            _ => {}
        }
    }
    if form.is_empty() {
        return Some((Accept { shape: Shape::Whole, yaml }, None));
    }
    if group != "meta.k8s.io" {
        return None;
    }
    let version = match version {
        "v1" => "v1",
        "v1beta1" => "v1beta1",
        _ => return None,
    };
    let (shape, is_list) = match form {
        "Table" => (Shape::Table { version }, None),
        "PartialObjectMetadata" => (Shape::Metadata, Some(false)),
        "PartialObjectMetadataList" => (Shape::Metadata, Some(true)),
        _ => return None,
    };
    Some((Accept { shape, yaml }, is_list))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(text: &str, list: bool) -> Option<(Shape, bool)> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, text.parse().unwrap());
        Accept::parse(&headers, list).ok().map(|accept| (accept.shape, accept.yaml))
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
        assert_eq!(Accept::parse(&HeaderMap::new(), true).unwrap().shape, Shape::Whole);
    }
}
