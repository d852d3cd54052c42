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
        let plain = Self { shape: Shape::Whole, yaml: false };
        let mut any = false;
        for value in headers.get_all(header::ACCEPT) {
            for clause in
                value.to_str().unwrap_or_default().split(',').filter(|clause| !clause.trim().is_empty())
            {
                any = true;
                if let Some(accept) = clause_form(clause, list) {
                    return Ok(accept);
                }
            }
        }
        if any { Err(Failure::not_acceptable()) } else { Ok(plain) }
    }
}

fn clause_form(clause: &str, list: bool) -> Option<Accept> {
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
        return Some(Accept { shape: Shape::Whole, yaml });
    }
    if group != "meta.k8s.io" {
        return None;
    }
    let version = match version {
        "v1" => "v1",
        "v1beta1" => "v1beta1",
        _ => return None,
    };
    let shape = match form {
        "Table" => Shape::Table { version },
        "PartialObjectMetadata" if !list => Shape::Metadata,
        "PartialObjectMetadataList" if list => Shape::Metadata,
        _ => return None,
    };
    Some(Accept { shape, yaml })
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
